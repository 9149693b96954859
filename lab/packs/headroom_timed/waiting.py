"""Nodes that wait, in every way that ComfyUI runs nodes, and tell when they ran."""

import asyncio
import json
import runpy
import time
from pathlib import Path

import comfy.model_management as mm

SHARED = runpy.run_path(str(Path(__file__).resolve().parents[1] / "node.py"))
ANY, Node = SHARED["ANY"], SHARED["Node"]


class Timed(Node):
    OUTPUT_NODE = True
    INPUTS = {"seconds": ("FLOAT", {"default": 0.01, "min": 0.0, "max": 60.0, "step": 0.001}),
              "salt": ("INT", {"default": 0})}
    OPTIONAL = {"value": (ANY,)}

    @staticmethod
    def told(began, value=None, **more):
        shown = {"began": began, "ended": time.time(), **more}
        return {"ui": {"text": [json.dumps(shown)]}, "result": (value,)}


class TimedWork(Timed):
    """Waits, and stops at once when it is interrupted."""

    def run(self, seconds, salt, value=None):
        began = time.time()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            mm.throw_exception_if_processing_interrupted()
            time.sleep(min(0.005, max(0.0, deadline - time.monotonic())))
        return self.told(began, value)


class TimedInner(TimedWork):
    """Runs only when another node asks for its output."""

    OUTPUT_NODE = False


class TimedSeed(TimedWork):
    """Waits a tenth of a second times its seed; the seed does not make it another node."""

    INPUTS, OPTIONAL = {"seed": ("INT", {"default": 0})}, {}

    def run(self, seed):
        return super().run(seed / 10, 0)


class TimedFail(TimedWork):
    """Waits, then raises."""

    def run(self, seconds, salt, value=None):
        super().run(seconds, salt, value)
        raise RuntimeError("HostBuffer.read_file_slice failed (on purpose)")


class TimedAsync(Timed):
    """Waits without holding up other nodes."""

    async def run(self, seconds, salt, value=None):
        began = time.time()
        await asyncio.sleep(seconds)
        return self.told(began, value)


class TimedAsyncFail(TimedAsync):
    async def run(self, seconds, salt, value=None):
        await asyncio.sleep(seconds)
        raise RuntimeError("this async node fails on purpose")


class TimedLazy(Timed):
    """Asks for its input only when it is looked at."""

    OPTIONAL = {"value": (ANY, {"lazy": True})}

    def check_lazy_status(self, seconds, salt, value=None):
        return ["value"]

    def run(self, seconds, salt, value=None):
        began = time.time()
        time.sleep(seconds)
        return self.told(began, value)


class TimedLazyAsync(TimedLazy):
    run = TimedAsync.run


class TimedList(Timed):
    """Hands on a list, so that what follows runs once for each item."""

    OUTPUT_IS_LIST = (True,)

    def run(self, seconds, salt, value=None):
        return self.told(time.time(), list(range(4)))

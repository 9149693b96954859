"""Nodes that tell by their own clock when they ran, in every way that ComfyUI runs nodes."""

import asyncio
import json
import sys
import time

import comfy.model_management as mm
import torch
from comfy.model_patcher import ModelPatcher
from comfy.patcher_extension import CallbacksMP
from comfy_execution.graph_utils import GraphBuilder


class AnyType(str):
    def __ne__(self, other):
        return False


ANY = AnyType("*")
KEPT = []


class Timed:
    CATEGORY = "headroom_timed"
    RETURN_TYPES = (ANY,)
    FUNCTION = "run"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        seconds = ("FLOAT", {"default": 0.01, "min": 0.0, "max": 60.0, "step": 0.001})
        salt = ("INT", {"default": 0})
        return {"required": {"seconds": seconds, "salt": salt}, "optional": {"value": (ANY,)}}

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


class TimedFail(TimedWork):
    """Waits, then raises."""

    def run(self, seconds, salt, value=None):
        super().run(seconds, salt, value)
        raise RuntimeError("this node fails on purpose")


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


class TimedMemory(Timed):
    """Takes `mib` of memory on `device`, and keeps it or gives it back before it ends."""

    @classmethod
    def INPUT_TYPES(cls):
        types = Timed.INPUT_TYPES()
        types["required"]["mib"] = ("INT", {"default": 64, "max": 100000})
        types["required"]["keep"] = ("BOOLEAN", {"default": False})
        return types

    def run(self, seconds, salt, mib, keep, value=None):
        began = time.time()
        block = torch.ones(mib * 2**20, dtype=torch.uint8, device=mm.get_torch_device())
        time.sleep(seconds)
        if keep:
            KEPT.append(block)
        else:
            del block
            mm.soft_empty_cache()
        return self.told(began, value)


class TimedForget(Timed):
    """Drops what TimedMemory kept."""

    def run(self, seconds, salt, value=None):
        began = time.time()
        KEPT.clear()
        time.sleep(seconds)
        mm.soft_empty_cache()
        return self.told(began, value)


class TimedDrop(Timed):
    """Drops what TimedMemory kept, and leaves it in the allocator's cache."""

    def run(self, seconds, salt, value=None):
        KEPT.clear()
        return self.told(time.time(), value)


class TimedExpand(Timed):
    """Becomes a chain of `count` TimedWork nodes."""

    @classmethod
    def INPUT_TYPES(cls):
        types = Timed.INPUT_TYPES()
        types["required"]["count"] = ("INT", {"default": 3})
        types["required"]["kind"] = ("STRING", {"default": "TimedWork"})
        return types

    def run(self, seconds, salt, count, kind, value=None):
        graph = GraphBuilder()
        for step in range(count):
            inputs = {"seconds": seconds, "salt": salt * 100 + step}
            if value is not None or step:
                inputs["value"] = value
            value = graph.node(kind, **inputs).out(0)
        return {"result": (value,), "expand": graph.finalize()}


class TimedLoop(Timed):
    """A loop by expansion: works, then becomes itself with one turn less."""

    @classmethod
    def INPUT_TYPES(cls):
        types = Timed.INPUT_TYPES()
        types["required"]["turns"] = ("INT", {"default": 3})
        return types

    def run(self, seconds, salt, turns, value=None):
        graph = GraphBuilder()
        work = graph.node("TimedWork", seconds=seconds, salt=salt * 100 + turns)
        if turns <= 1:
            return {"result": (work.out(0),), "expand": graph.finalize()}
        loop = graph.node(
            "TimedLoop", seconds=seconds, salt=salt, turns=turns - 1, value=work.out(0)
        )
        return {"result": (loop.out(0),), "expand": graph.finalize()}


class TimedLazy(Timed):
    """Asks for its input only when it is looked at."""

    @classmethod
    def INPUT_TYPES(cls):
        types = Timed.INPUT_TYPES()
        types["optional"] = {"value": (ANY, {"lazy": True})}
        return types

    def check_lazy_status(self, seconds, salt, value=None):
        return ["value"]

    def run(self, seconds, salt, value=None):
        began = time.time()
        time.sleep(seconds)
        return self.told(began, value)


class TimedLazyAsync(TimedLazy):
    async def run(self, seconds, salt, value=None):
        began = time.time()
        await asyncio.sleep(seconds)
        return self.told(began, value)


class TimedList(Timed):
    """Hands on a list, so that what follows runs once for each item."""

    OUTPUT_IS_LIST = (True,)

    def run(self, seconds, salt, value=None):
        return self.told(time.time(), list(range(4)))


class TimedRegistry(Timed):
    """What ComfyUI's progress registry holds while the prompt runs."""

    def run(self, seconds, salt, value=None):
        from comfy_execution.progress import get_progress_state

        registry = get_progress_state()
        names = {name: type(handler).__name__ for name, handler in registry.handlers.items()}
        return self.told(time.time(), value, handlers=names, prompt_id=registry.prompt_id)


class TimedSlowModel(Timed):
    """Loads a model whose unloading takes `seconds`, and tells when the last such one began."""

    DETACHED = []

    def run(self, seconds, salt, value=None):
        linear = torch.nn.Linear(256, 256)
        cpu = torch.device("cpu")
        patcher = ModelPatcher(linear, load_device=mm.get_torch_device(), offload_device=cpu)

        def detaching(*_):
            began = time.time()
            time.sleep(seconds)
            self.DETACHED.append((began, time.time()))

        patcher.add_callback(CallbacksMP.ON_DETACH, detaching)
        mm.load_models_gpu([patcher])
        KEPT.append(patcher)
        return self.told(time.time(), value)


class TimedDetached(Timed):
    """When slow models were unloaded."""

    def run(self, seconds, salt, value=None):
        return self.told(time.time(), value, detached=list(TimedSlowModel.DETACHED))


class TimedModules(Timed):
    """Which parts of matplotlib this server has imported."""

    def run(self, seconds, salt, value=None):
        found = sorted(name for name in sys.modules if name.split(".")[0] == "matplotlib")
        return self.told(time.time(), value, matplotlib=found)


class TimedNote(Timed):
    """Tells the pack under test about an action and a recovery, as its own nodes do."""

    def run(self, seconds, salt, value=None):
        began = time.time()
        journal = next(
            module for name, module in list(sys.modules.items())
            if name.replace("\\", "/").endswith("headroom.headroom.measure.journal")
        )
        journal.note_action("purge", 12.5, "12.5 MiB of VRAM freed")
        journal.note_oom(1, "unloaded every other model", 3.0, "Allocation failed", False)
        journal.note_oom(2, "gave the allocator's cache back", 4.0, "Allocation failed", True)
        return self.told(began, value)


NODE_CLASS_MAPPINGS = {
    cls.__name__: cls
    for cls in (
        TimedWork, TimedFail, TimedAsync, TimedAsyncFail, TimedMemory, TimedForget, TimedDrop,
        TimedExpand, TimedLoop, TimedLazy, TimedLazyAsync, TimedList, TimedRegistry, TimedNote,
        TimedModules, TimedSlowModel, TimedDetached,
    )
}

"""ComfyUI's own executor with the pack loaded: what `recorder_overhead` measures.

    python benchmarks/recorder_run.py COMFYUI BASE_DIRECTORY TURNS NODES FLAG...

Prints one line of JSON; the flags are ComfyUI's. Run by `recorder_overhead`, in a process of its
own.
"""

# ruff: noqa: E402, I001
import asyncio
import itertools
import json
import os
import sys
import threading
import time
from typing import Any

from on_path import ROOT

from tools.load_file import load_file

COMFYUI, BASE, TURNS, NODES = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
NODES_PER_BLOCK = 20
DEPTH = 10  # nodes of a chain

sys.path[0] = COMFYUI  # in the place of this repository, whose `nodes` would hide ComfyUI's
sys.argv = ["main.py", "--base-directory", BASE, *sys.argv[5:]]
import comfy.options

comfy.options.enable_args_parsing()
import utils.extra_config  # noqa: F401  (before a module named utils is found elsewhere)
import execution
import nodes
import server
from comfy_execution.progress import ProgressHandler, get_progress_state


class Nothing(ProgressHandler):
    """A handler that does nothing."""

    def start_handler(self, *_: Any) -> None: ...
    def finish_handler(self, *_: Any) -> None: ...


class Blocks:
    """Puts a handler into the running prompt's registry for some nodes, and out for as many.

    At the last node it puts the recorder in: ComfyUI tells the handlers of the last registry that a
    prompt begins, and a run that is not announced is not recorded.
    """

    def __init__(self) -> None:
        self.handler: ProgressHandler | None = None
        self._count = 0
        self._recorded = False
        self._marks: list[tuple[bool, float]] = []

    def begin(self, handler: ProgressHandler | None, recorded: bool = False) -> None:
        """A run begins, and its first block has the handler or not (no handler: no blocks)."""
        self.handler, self._recorded = handler, recorded
        self._count, self._marks = 0, []

    def node(self) -> None:
        """A node runs."""
        if self.handler is not None and self._count % NODES_PER_BLOCK == 0:
            self._marks.append((self._recorded, time.perf_counter()))
            handlers = get_progress_state().handlers
            if self._recorded:
                handlers["headroom"] = self.handler
            else:
                handlers.pop("headroom", None)
            self._recorded = not self._recorded
        self._count += 1
        if self.handler is not None and self._count == NODES:
            get_progress_state().handlers["headroom"] = watcher

    def seconds(self) -> tuple[bool, list[float]]:
        """Whether the first block had the handler, and the seconds of each."""
        times = [at for _, at in self._marks]
        return self._marks[0][0], [after - before for before, after in itertools.pairwise(times)]


class Trivial:
    """One number more."""

    CATEGORY, RETURN_TYPES, FUNCTION, OUTPUT_NODE = "benchmark", ("INT",), "run", False

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802
        return {"required": {"value": ("INT", {"default": 0})}}

    def run(self, value: int) -> tuple[int]:
        blocks.node()
        return (value + 1,)


class TrivialEnd(Trivial):
    """The last of a chain."""

    OUTPUT_NODE = True


class Runs:
    """Runs graphs of trivial nodes in ComfyUI's executor, one after the other."""

    def __init__(self) -> None:
        loop = asyncio.new_event_loop()
        self._server = server.PromptServer(loop)
        threading.Thread(
            target=loop.run_until_complete, args=(self._server.publish_loop(),), daemon=True
        ).start()
        self._executor = execution.PromptExecutor(
            self._server, cache_type=execution.CacheType.CLASSIC,
            cache_args={"lru": 0, "ram": 0.0, "ram_inactive": 0.0},
        )
        self._count = 0

    def once(self) -> str:
        """Run a graph, and return the id of its prompt."""
        self._count += 1
        prompt_id = f"run-{self._count}"
        prompt, ends = _graph(self._count)
        queue = self._server.prompt_queue
        queue.put((0, prompt_id, prompt, {}, ends, {}))
        item, item_id = queue.get()
        self._executor.execute(item[2], prompt_id, {}, item[4])
        status = execution.PromptQueue.ExecutionStatus(
            "success", True, self._executor.status_messages
        )
        queue.task_done(item_id, self._executor.history_result, status)
        time.sleep(0.16)  # the recorder's thread finishes with the run
        return prompt_id


def _graph(salt: int) -> tuple[dict[str, Any], list[str]]:
    prompt: dict[str, Any] = {}
    for chain in range(NODES // DEPTH):
        for i in range(DEPTH):
            value = salt * 1000 + chain if i == 0 else [f"{chain}.{i - 1}", 0]
            kind = "Trivial" if i < DEPTH - 1 else "TrivialEnd"
            prompt[f"{chain}.{i}"] = {"class_type": kind, "inputs": {"value": value}}
    return prompt, [f"{chain}.{DEPTH - 1}" for chain in range(NODES // DEPTH)]


def _load_pack() -> None:
    asyncio.run(load_file("headroom_pack", ROOT / "__init__.py").comfy_entrypoint())


def _idle(seconds: float = 5.0) -> float:
    began = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - began) * 1000 / seconds


def _blocks() -> dict[str, list[tuple[bool, list[float]]]]:
    handlers = {"recorder": watcher, "none": Nothing("headroom")}
    found: dict[str, list[tuple[bool, list[float]]]] = {name: [] for name in handlers}
    for turn in range(TURNS * 4):
        for name, handler in handlers.items():
            blocks.begin(handler, recorded=turn % 2 == 0)
            prompt_id = runs.once()
            found[name].append(blocks.seconds())
            if newest_ids()[0] != prompt_id:
                raise RuntimeError("A run was not recorded, so its blocks show nothing.")
    blocks.begin(None)
    return found


nodes.NODE_CLASS_MAPPINGS.update(Trivial=Trivial, TrivialEnd=TrivialEnd)
blocks, runs = Blocks(), Runs()
idle_without = _idle()
_load_pack()
for _ in range(6):
    runs.once()
watcher = get_progress_state().handlers["headroom"]
report = sys.modules["headroom_pack.headroom.advise.report"]
newest_ids = report.current_advisor().recorder.newest_ids
answer: dict[str, Any] = {"blocks": _blocks()}
time.sleep(1)
answer.update(idle_without=idle_without, idle_with=_idle())
print(json.dumps(answer), flush=True)
os._exit(0)  # threads of ComfyUI's server have no end

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
from collections.abc import Callable, Iterable
from typing import Any

from on_path import ROOT

from tools.load_file import load_file

COMFYUI, BASE, TURNS, NODES = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
NODES_PER_BLOCK = 20
DEPTHS = (10, NODES)
TOLD = ("reset", "_find", "start_handler", "finish_handler", "_leave")

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
    """Puts a handler into the running prompt's registry for some nodes, and out for as many."""

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

    def seconds(self) -> tuple[bool, list[float]]:
        """Whether the first block had the handler, and the seconds of each."""
        times = [at for _, at in self._marks]
        return self._marks[0][0], [after - before for before, after in itertools.pairwise(times)]


class Stopwatch:
    """CPU time in the methods it was put around, less what that takes around an empty one.

    Reading the clock takes longer between two nodes than in a loop, so the empty one (`nothing`) is
    a handler of the same runs.
    """

    def __init__(self) -> None:
        self._runs = False
        self._nothing = Nothing("nothing")
        for name in ("start_handler", "finish_handler"):
            setattr(self._nothing, name, self.around(getattr(self._nothing, name), empty=True))
        self.reset()

    def put_around(self, owner: Any, names: Iterable[str]) -> None:
        """Watch these methods of `owner` from now on."""
        self._runs = True
        for name in names:
            setattr(owner, name, self.around(getattr(owner, name)))

    def node(self) -> None:
        """A node runs."""
        if self._runs and self._nothing.name not in get_progress_state().handlers:
            get_progress_state().register_handler(self._nothing)

    def reset(self) -> None:
        """Start from 0."""
        self._spent = {False: 0.0, True: 0.0}
        self._calls = {False: 0, True: 0}

    def around(self, method: Callable[..., None], empty: bool = False) -> Callable[..., None]:
        def call(*args: Any) -> None:
            began = time.thread_time()
            try:
                method(*args)
            finally:
                self._spent[empty] += time.thread_time() - began
                self._calls[empty] += 1

        return call

    @property
    def seconds(self) -> float:
        each = self._spent[True] / max(self._calls[True], 1)
        return self._spent[False] - self._calls[False] * each


class Trivial:
    """One number more."""

    CATEGORY, RETURN_TYPES, FUNCTION, OUTPUT_NODE = "benchmark", ("INT",), "run", False

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802
        return {"required": {"value": ("INT", {"default": 0})}}

    def run(self, value: int) -> tuple[int]:
        blocks.node()
        watch.node()
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

    def once(self, depth: int, complete: bool = True) -> tuple[float, float, float]:
        """Run a graph; return CPU seconds in the recorder, outside of it, and in it afterwards."""
        self._count += 1
        prompt_id = f"run-{self._count}"
        prompt, ends = _graph(self._count, depth)
        queue = self._server.prompt_queue
        queue.put((0, prompt_id, prompt, {}, ends, {}))
        item, item_id = queue.get()
        cpu = time.process_time()
        self._executor.execute(item[2], prompt_id, {}, item[4])
        cpu, inside = time.process_time() - cpu, watch.seconds
        status = execution.PromptQueue.ExecutionStatus(
            "success", True, self._executor.status_messages
        )
        queue.task_done(item_id, self._executor.history_result, status)
        time.sleep(0.16)  # the recorder's thread finishes with the run
        afterwards = watch.seconds - inside
        recorded = recorder.run(prompt_id)["nodes"]
        assert len(recorded) == NODES or not complete, f"{len(recorded)} nodes recorded"
        return inside, cpu - inside, afterwards


def _graph(salt: int, depth: int) -> tuple[dict[str, Any], list[str]]:
    prompt: dict[str, Any] = {}
    for chain in range(NODES // depth):
        for i in range(depth):
            value = salt * 1000 + chain if i == 0 else [f"{chain}.{i - 1}", 0]
            kind = "Trivial" if i < depth - 1 else "TrivialEnd"
            prompt[f"{chain}.{i}"] = {"class_type": kind, "inputs": {"value": value}}
    return prompt, [f"{chain}.{depth - 1}" for chain in range(NODES // depth)]


def _load_pack() -> Any:
    asyncio.run(load_file("headroom_pack", ROOT / "__init__.py").comfy_entrypoint())
    return sys.modules["headroom_pack.headroom.record.current"].current_recorder()


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
            runs.once(DEPTHS[0], complete=False)
            found[name].append(blocks.seconds())
    blocks.begin(None)
    return found


def _inside() -> list[list[tuple[float, float, float]]]:
    watch.put_around(watcher, TOLD)
    watch.put_around(recorder, ["_sample"])
    found: list[list[tuple[float, float, float]]] = [[] for _ in DEPTHS]
    for _ in range(TURNS):
        for depth, several in zip(DEPTHS, found, strict=True):
            watch.reset()
            several.append(runs.once(depth))
    return found


nodes.NODE_CLASS_MAPPINGS.update(Trivial=Trivial, TrivialEnd=TrivialEnd)
blocks, watch, runs = Blocks(), Stopwatch(), Runs()
idle_without = _idle()
recorder = _load_pack()
for _ in range(6):
    runs.once(DEPTHS[0])
watcher = get_progress_state().handlers["headroom"]
answer: dict[str, Any] = {"blocks": _blocks()}
time.sleep(1)
answer.update(idle_without=idle_without, idle_with=_idle(), inside=_inside())
print(json.dumps(answer), flush=True)
os._exit(0)  # threads of ComfyUI's server have no end

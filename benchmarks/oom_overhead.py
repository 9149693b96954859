"""What the guard costs a model call while nothing fails: switched off and on within one sampling.

    python benchmarks/oom_overhead.py --comfyui PATH [--gpu]

Between the steps of one sampling of a guarded model the guard's wrappers are taken out and put
back in, and each step is set against its two neighbours. `empty` is the same with wrappers that
do nothing, `none` with no wrapper at all: what these show is the method's own error. On the CPU,
CPU time of the process decides, because wall-clock time on a shared machine says more about the
neighbours; on a GPU the wall clock, after the device has finished.

`own_us` is the CPU time that passes in the guard's own wrappers in a step, read from clocks right
before and right behind them.

The cost is a fixed time per step, whatever the model: the percentage is one of the step measured
here (an SD1.5-class UNet of 44 M parameters at 64x64), less for longer steps and more for shorter.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import Bench, add_gpu, served
from tools.bench_run import alone
from tools.graph import Graph, add_checkpoint, add_guard
from tools.switched import added

NAME = "oom_overhead"
REHEARSAL = ("--rounds", "2", "--steps", "6")
KEYS = {"guard": "headroom_oom_guard", "empty": "headroom_empty_wrappers", "none": ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser, fake_cuda=False)
    parser.add_argument("--rounds", type=int, default=8, help="samplings of each kind")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--size", type=int, default=64)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return the time of a plain step and what the guard adds to it, as medians (see module)."""
    steps: dict[str, list[tuple[bool, list[float]]]] = {name: [] for name in KEYS}
    own: list[float] = []
    with served(args, None, files=[models.DEMO_CHECKPOINT], packs=["headroom_oom_probe"]) as server:
        for _ in range(args.rounds):
            for name in KEYS:
                steps[name].append((False, _sampled(server, name, args)["seconds"]))
            told = _sampled(server, "stopwatch", args)
            own.append(1e6 * told["own_seconds"] / args.steps)
    return {
        "device": "GPU" if args.gpu else "CPU", "steps": args.steps, "size": args.size,
        "rounds": args.rounds, "own_us": round(statistics.median(own), 1),
        **{name: added(runs) for name, runs in steps.items()},
    }


def _sampled(server: Bench, name: str, args: argparse.Namespace) -> Any:
    """What OomOverhead tells of one sampling with the wrappers of that name."""
    graph = Graph()
    model = MODELS[name](graph, add_checkpoint(graph, models.DEMO_CHECKPOINT)[0])
    node = graph.add("OomOverhead", model=model, steps=args.steps, key=KEYS.get(name, ""),
                     size=args.size)
    told = server.told(graph, node)
    expected = 3 * ((args.steps + 1) // 2) if name == "empty" else 0
    if told["empty_calls"] != expected:
        raise RuntimeError(f"{told['empty_calls']} calls of wrappers that do nothing, expected "
                           f"{expected}: they were not there in every other step alone")
    return told


def _guarded(graph: Graph, model: Any) -> Any:
    return add_guard(graph, model)[0]


def _timed(graph: Graph, model: Any) -> Any:
    model = graph.add("OomStopwatch", model=model, behind=False)[0]
    return graph.add("OomStopwatch", model=_guarded(graph, model), behind=True)[0]


def _emptily_wrapped(graph: Graph, model: Any) -> Any:
    return graph.add("OomEmptyWrappers", model=model)[0]


MODELS: dict[str, Callable[[Graph, Any], Any]] = {
    "guard": _guarded, "empty": _emptily_wrapped, "none": lambda graph, model: model,
    "stopwatch": _timed,
}


if __name__ == "__main__":
    alone()

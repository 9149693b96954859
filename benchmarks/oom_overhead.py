"""What the guard costs a model call while nothing fails: guarded and plain, in turns, in one run.

    python benchmarks/oom_overhead.py --comfyui PATH [--gpu]

The same sampling alternates between the guarded and the plain model in one process. Process CPU
time decides, because wall-clock time on a shared machine says more about the neighbours. The cost
of the guard is a fixed time per step: it is measured where a step is short (an SD1.5-class UNet
of 44 M parameters at 64x64), so that it is not lost in the noise of a long one. A real step takes
longer, so the percentage here is an upper bound.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent)

from oom_common import (  # noqa: E402
    EVERYTHING,
    PACK,
    ComfyServer,
    Graph,
    alone,
    answer,
    guarded,
    loader,
    models,
)

NAME = "oom_overhead"
TIMEOUT = 7200.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpu", action="store_true", help="on the machine's own GPU, not the CPU")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--size", type=int, default=64)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return the CPU time of a plain step and what the guard adds, as medians over the rounds."""
    folder = models.models_folder()
    models.make_models(folder, [models.DEMO_CHECKPOINT])
    graph = Graph()
    model = loader(graph, models.DEMO_CHECKPOINT)
    node = graph.add(
        "OomOverhead", guarded=guarded(graph, model[0], EVERYTHING), plain=model[0],
        rounds=args.rounds, steps=args.steps, size=args.size,
    )
    with tempfile.TemporaryDirectory() as base:
        with ComfyServer(Path(args.comfyui), Path(base), models_dir=folder, packs=[PACK],
                         gpu=args.gpu) as started:
            times = answer(started.client().run(graph.prompt, timeout=TIMEOUT), node)
    plain = statistics.median(times["plain"])
    added = [under_guard - alone for under_guard, alone in
             zip(times["guarded"], times["plain"], strict=True)]
    return {
        "device": "GPU" if args.gpu else "CPU", "steps": args.steps, "size": args.size,
        "rounds": args.rounds, "plain_ms": round(plain * 1e3, 3),
        "added_ms": round(statistics.median(added) * 1e3, 3),
        "added_percent": round(statistics.median(added) / plain * 100, 3),
        "spread_percent": round(_uncertainty(added) / plain * 100, 3),
        "times_ms": {name: [round(t * 1e3, 3) for t in values] for name, values in times.items()},
    }


def _uncertainty(values: list[float]) -> float:
    """Half the 95 % interval of the median, from the range of the middle half of the values."""
    quarters = statistics.quantiles(values, n=4)
    deviation = (quarters[2] - quarters[0]) / 1.349  # of a normal distribution
    return 1.96 * 1.2533 * deviation / math.sqrt(len(values))


if __name__ == "__main__":
    alone(sys.modules[__name__])

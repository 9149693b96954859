"""The smallest GPU on which a workflow completes: stock, guard without split, guard with all.

    python benchmarks/oom_capacity.py --comfyui PATH [--step MIB] [--size PX] [--batch N]

SD1.5 class (full CLIP-L and full SD VAE, random weights in bfloat16), 512x512, batch 4, on the
simulated GPU: text encoding, sampling (2 steps) and decoding are tried at falling capacity until
each of them stops completing; the workflow needs the largest of the three. The floor is the
largest single layer at batch 1: its weights, its input and its output, with the VAE in the
smallest tiles. Capacity here is all there is: no CUDA context, no library workspaces.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent)

from oom_common import (  # noqa: E402
    EVERYTHING,
    WITHOUT_SPLIT,
    Graph,
    answer,
    guarded,
    loader,
    models,
    record,
    server,
)

NAME = "oom_capacity"
MODES = {"stock": None, "guard without split": WITHOUT_SPLIT, "guard with everything": EVERYTHING}
STAGES = ("encode", "sample", "decode")
TIMEOUT = 7200.0
START_MIB = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comfyui", default=os.environ.get("COMFYUI_PATH"), help="ComfyUI tree")
    parser.add_argument("--step", type=int, default=8, help="MiB; the result is a multiple of it")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--low", type=int, default=56, help="MiB that surely do not suffice")
    parser.add_argument("--high", type=int, default=520, help="MiB that surely suffice")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return the smallest capacity in MiB for each mode and stage, and the floor."""
    with tempfile.TemporaryDirectory() as base:
        with server(args.comfyui, Path(base), START_MIB, [models.DEMO_CHECKPOINT]) as started:
            bench = _Bench(started.client(), args)
            floor = bench.floor()
            found = {mode: bench.smallest(mode) for mode in MODES}
    needs = {mode: max(stages.values()) for mode, stages in found.items()}
    stock, full = needs["stock"], needs["guard with everything"]
    return {
        "size": args.size, "batch": args.batch, "step_mib": args.step,
        "smallest_mib": needs, "by_stage_mib": found, "floor": floor,
        "guard_of_stock": round(full / stock, 3),
        "guard_of_floor": round(full / floor["mib"], 3),
        "probes": bench.probes,
    }


class _Bench:
    def __init__(self, client: Any, args: argparse.Namespace) -> None:
        self.client = client
        self.args = args
        self.probes: list[dict[str, Any]] = []

    def smallest(self, mode: str) -> dict[str, int]:
        """Bisect each stage on its own: the models of the others are unloaded in between."""
        return {stage: self._bisect(mode, stage) for stage in STAGES}

    def _bisect(self, mode: str, stage: str) -> int:
        low, high, step = self.args.low, self.args.high, self.args.step
        low, high = low // step, -(-high // step)
        while high - low > 1:
            middle = (low + high) // 2
            if self._completes(mode, stage, middle * step):
                high = middle
            else:
                low = middle
        return high * step

    def _completes(self, mode: str, stage: str, mib: int) -> bool:
        graph = Graph()
        model = loader(graph, models.DEMO_CHECKPOINT)
        wires = [guarded(graph, model[output], MODES[mode]) for output in range(3)]
        node = graph.add(
            "OomCapacityProbe", model=wires[0], clip=wires[1], vae=wires[2], stage=stage,
            mib=mib, size=self.args.size, batch=self.args.batch, steps=2,
        )
        started = time.monotonic()
        outcome = answer(self.client.run(graph.prompt, timeout=TIMEOUT), node)
        probe = {"mode": mode, "stage": stage, "mib": mib, **outcome,
                 "seconds": round(time.monotonic() - started, 1)}
        self.probes.append(probe)
        print(json.dumps(probe), file=sys.stderr, flush=True)
        return bool(outcome["completed"])

    def floor(self) -> dict[str, Any]:
        graph = Graph()
        model = loader(graph, models.DEMO_CHECKPOINT)
        node = graph.add("OomLargestLayer", model=model[0], clip=model[1], vae=model[2],
                         size=self.args.size)
        return answer(self.client.run(graph.prompt, timeout=TIMEOUT), node)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    given = parser.parse_args()
    result = run(given)
    print(record(NAME, result, given.comfyui))
    print(json.dumps({k: v for k, v in result.items() if k != "probes"}, indent=1))

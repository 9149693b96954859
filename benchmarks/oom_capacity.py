"""The smallest GPU on which a workflow completes: stock, guard without split, guard with all.

    python benchmarks/oom_capacity.py --comfyui PATH [--step MIB] [--size PX] [--batch N]

SD1.5 class (full CLIP-L and full SD VAE, random weights in bfloat16), 512x512, batch 4, on the
simulated GPU (with `--fake-cuda` on PyTorch's own allocator): text encoding, sampling (2 steps) and
decoding are tried at falling capacity until each of them stops completing; the workflow needs the
largest of the three. The floor is the largest single layer of any stage on the GPU at batch 1 (one
conditioning of one image): its weights, its input and its output, with the VAE in tiles of 64
pixels. No way of splitting a batch
gets below what stock needs for one conditioning of one image, where the tensors between the layers
live too: that is measured as well. Capacity here is all there is: no CUDA context, no library
workspaces.

The search leaves out the arithmetic (all allocations take place, values are zeros: a test shows
that the bytes are the same); afterwards each stage is computed for real at the smallest capacity
found for the whole workflow under the guard with everything (decoding: one image, to save time).
"""

import argparse
import json
import sys
import time
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import Bench, add_fake_cuda, narrowed, served
from tools.bench_run import alone
from tools.graph import Graph, add_checkpoint, add_guard

NAME = "oom_capacity"
BEST = "guard with everything"
MODES: dict[str, dict[str, Any] | None] = {
    "stock": None, "guard without split": {"split_batch": False, "tile_vae": False}, BEST: {},
}
STAGES = ("encode", "sample", "decode")
START_MIB = 2048


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_fake_cuda(parser)
    parser.add_argument("--step", type=int, default=4, help="MiB; the result is a multiple of it")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--low", type=int, default=16, help="MiB that are certainly too few")
    parser.add_argument("--high", type=int, default=520, help="MiB that are certainly enough")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return the smallest capacity in MiB for each mode and stage, and the floor."""
    with served(args, START_MIB, files=[models.DEMO_CHECKPOINT],
                packs=["headroom_oom_probe"]) as server:
        bench = _Capacities(server, args)
        floors = bench.floors()
        single = bench.smallest("stock", "sample", batch=1, cfg=1.0)
        # Each stage on its own: the models of the others are unloaded in between.
        found = {mode: {stage: bench.smallest(mode, stage) for stage in STAGES} for mode in MODES}
        needs = {mode: max(stages.values()) for mode, stages in found.items()}
        computed = {
            stage: bench.completes(BEST, stage, needs[BEST], computed=True,
                                   **({"batch": 1} if stage == "decode" else {}))
            for stage in STAGES
        }
    floor = max(floors.values(), key=lambda layer: layer["mib"])
    return {
        "size": args.size, "batch": args.batch, "step_mib": args.step,
        "smallest_mib": needs, "by_stage_mib": found,
        "floor": floor, "floor_by_stage": floors, "single_mib": single,
        "guard_of_stock": round(needs[BEST] / needs["stock"], 3),
        "guard_of_floor": round(needs[BEST] / floor["mib"], 3),
        "guard_of_single": round(needs[BEST] / single, 3),
        "computed_at_smallest": computed,
        "probes": bench.probes,
    }


class _Capacities:
    def __init__(self, server: Bench, args: argparse.Namespace) -> None:
        self.server, self.args = server, args
        self.probes: list[dict[str, Any]] = []

    def smallest(self, mode: str, stage: str, **changed: Any) -> int:
        """The smallest capacity in MiB at which the stage completes."""
        step = self.args.step
        return step * narrowed(
            lambda steps: self.completes(mode, stage, steps * step, **changed),
            self.args.low // step, -(-self.args.high // step),
        )

    def completes(
        self, mode: str, stage: str, mib: int, computed: bool = False, **changed: Any
    ) -> bool:
        graph = Graph()
        parts, options = self.parts(graph), MODES[mode]
        if options is not None:
            parts = {name: add_guard(graph, part, **options) for name, part in parts.items()}
        node = graph.add("OomCapacityProbe", **parts, stage=stage, mib=mib, steps=2,
                         computed=computed,
                         **{"size": self.args.size, "batch": self.args.batch, **changed})
        started = time.monotonic()
        if self.server.driver:
            self.server.empty()
            self.server.set_capacity(mib)
        outcome = self.server.told(graph, node)
        probe = {"mode": mode, "stage": stage, "mib": mib, "computed": computed, **changed,
                 **outcome, "seconds": round(time.monotonic() - started, 1)}
        self.probes.append(probe)
        print(json.dumps(probe), file=sys.stderr, flush=True)
        return bool(outcome["completed"])

    def floors(self) -> dict[str, Any]:
        graph = Graph()
        layers = graph.add("OomLargestLayer", **self.parts(graph), size=self.args.size)
        found: dict[str, Any] = self.server.told(graph, layers)
        return found

    def parts(self, graph: Graph) -> dict[str, Any]:
        loaded = add_checkpoint(graph, models.DEMO_CHECKPOINT)
        return {name: loaded[output] for output, name in enumerate(("model", "clip", "vae"))}


if __name__ == "__main__":
    alone()

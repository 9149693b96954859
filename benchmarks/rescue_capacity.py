"""The smallest GPU on which a whole workflow completes: stock, with rescue, guarded by hand.

    python benchmarks/rescue_capacity.py --comfyui PATH [--size PX] [--batch N]

SD1.5 class from the loader to the saved picture, on the simulated GPU; each try begins on an empty
device with an empty node cache. With rescue the graph holds no guard: it fails, and its rerun
must complete. By hand there is an OOM Guard on the wires of MODEL, CLIP and VAE. The search narrows
an interval to 2 %; the two may differ by 5 %.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import Bench, served
from tools.bench_run import alone
from tools.graph import add_guard
from tools.rescued import live, picture

NAME = "rescue_capacity"
WIRES = (("sampler", "model"), ("positive", "clip"), ("negative", "clip"), ("decode", "vae"))
PRECISION = 0.02
ALLOWED = 1.05


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--high", type=int, default=2048, help="MiB that are certainly enough")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return the smallest capacity in MiB for each mode."""
    plain, by_hand = (picture(batch=args.batch, size=args.size) for _ in range(2))
    for node, name in WIRES:
        inputs = by_hand.prompt[node]["inputs"]
        inputs[name] = add_guard(by_hand, inputs[name])[0]
    modes = {"stock": (plain, False), "rescue": (plain, True), "by_hand": (by_hand, False)}
    with served(args, args.high, files=[models.TEST_CHECKPOINT]) as gpu:
        found = {mode: _smallest(gpu, graph.prompt, rescue, args.high)
                 for mode, (graph, rescue) in modes.items()}
    ratio = found["rescue"] / found["by_hand"]
    problems = [] if 1 / ALLOWED <= ratio <= ALLOWED else [f"rescue needs {ratio:.2f} of by hand"]
    return {"size": args.size, "batch": args.batch, **found, "ratio": ratio, "problems": problems}


def _smallest(gpu: Bench, prompt: dict[str, Any], rescue: bool, high: float) -> float:
    low = 1.0
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        if _completes(gpu, prompt, rescue, middle):
            high = middle
        else:
            low = middle
        print(rescue, f"{low:.1f} to {high:.1f} MiB", file=sys.stderr, flush=True)
    return round(high, 1)


def _completes(gpu: Bench, prompt: dict[str, Any], rescue: bool, mib: float) -> bool:
    gpu.empty()
    gpu.set_capacity(mib)
    return live(gpu.client, prompt, {"headroom": {"rescue": rescue}}, timeout=3600).succeeded


if __name__ == "__main__":
    alone()

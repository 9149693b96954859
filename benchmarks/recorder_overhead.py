"""What recording costs a run of 200 trivial nodes, and an idle server.

    python benchmarks/recorder_overhead.py --comfyui PATH [--gpu]

Runs ComfyUI's own executor with the pack loaded, on the CPU or on the GPU, where the recorder also
asks torch and the driver for their figures: chains of 10 trivial nodes. Within one run the
recorder's handler is taken out and put in again every 20 nodes, and each block is set against the
mean of its two neighbours (`recorded_blocks`; `none` is the same with a handler that does nothing,
to show what the method itself adds).

On a shared machine whole runs with and without the recorder differ by several percent in both
directions, so they show nothing. Beside other work blocks show as little: a node that waits for the
processor looks like a slow one, and slow nodes are measured. On Linux `chrt -r 10 python ...` (as
root) prevents that. `idle_cpu_ms_per_s` is the CPU time of the process while nothing runs, with the
pack and without.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools.bench_device import add_gpu, plain_flags
from tools.bench_run import alone
from tools.lab import FAKE_CUDA_LAUNCHER, rehearsed_mib, simulated
from tools.switched import added

NAME = "recorder_overhead"
REHEARSAL = ("--turns", "2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--turns", type=int, default=40, help="runs of each kind")
    parser.add_argument("--nodes", type=int, default=200)


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return how much longer recorded nodes take, in %, and what an idle server takes."""
    found = _measure(args)
    return {
        "nodes": args.nodes, "turns": args.turns,
        "recorded_blocks": {name: added(runs) for name, runs in found["blocks"].items()},
        "idle_cpu_ms_per_s": {"with": round(found["idle_with"], 3),
                              "without": round(found["idle_without"], 3)},
    }


def _measure(args: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as base:
        for name in ("custom_nodes", "models", "input", "output", "user"):
            (Path(base) / name).mkdir()
        words = [str(args.comfyui), base, str(args.turns), str(args.nodes)]
        words += plain_flags(args.comfyui) if args.gpu or args.fake_cuda else ["--cpu"]
        script = [str(Path(__file__).with_name("recorder_run.py"))]
        if args.gpu and (mib := rehearsed_mib()):
            script = [*simulated(mib), *script, "--"]
        if args.fake_cuda:
            script = [str(FAKE_CUDA_LAUNCHER), *script, "--"]
        done = subprocess.run(
            [sys.executable, *script, *words],
            capture_output=True, text=True, check=False, cwd=base,
        )
    if done.returncode != 0:
        raise RuntimeError(f"The measurement failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


if __name__ == "__main__":
    alone()

"""What recording costs a run of 200 trivial nodes, and an idle server.

    python benchmarks/recorder_overhead.py --comfyui PATH [--gpu]

Runs ComfyUI's own executor with the pack loaded, on the CPU or on the GPU, where the recorder also
asks torch and the driver for their figures; two graphs of trivial nodes: 20 chains of 10 (like a
workflow), and one chain of them all (where ComfyUI itself takes several times as long before it
begins). Two ways to see the cost:

- `inside_the_recorder`: CPU time in the recorder's own methods and thread while the prompt ran,
  less what reading the clock takes around the methods of an empty handler of the same run, set
  against the rest of that run. `afterwards_ms` is what its thread does when nothing runs any more:
  the record is put together and the nodes' names are looked up.
- `recorded_blocks`: within one run the handler is taken out and put in again every 20 nodes, and
  each block is set against the mean of its two neighbours. This sees what the first does not (cold
  caches, turns of the interpreter's lock between threads). `none` is the same with a handler that
  does nothing, to show what the method itself adds.

On a shared machine whole runs with and without the recorder differ by several percent in both
directions, so they show nothing. Beside other work blocks show as little: a node that waits for the
processor looks like a slow one, and slow nodes are measured. On Linux `chrt -r 10 python ...` (as
root) prevents that. `idle_cpu_ms_per_s` is the CPU time of the process while nothing runs, with the
pack and without.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools.bench_device import add_gpu, plain_flags
from tools.bench_run import alone
from tools.rehearsal import FAKE_CUDA_LAUNCHER, rehearsed_mib, simulated
from tools.switched import added, median_ms

NAME = "recorder_overhead"
REHEARSAL = ("--turns", "2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--turns", type=int, default=40, help="runs of each kind")
    parser.add_argument("--nodes", type=int, default=200)


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return the recorder's share of a run, in % of the rest of it, by both ways (see module)."""
    found = _measure(args)
    result: dict[str, object] = {"nodes": args.nodes, "turns": args.turns}
    for name, runs in zip(("chains_of_10", "one_chain"), found["inside"], strict=True):
        shares = [100 * during / rest for during, rest, _ in runs]
        result[name] = {
            "run_cpu_ms": median_ms(rest for _, rest, _ in runs),
            "inside_the_recorder_ms": median_ms(during for during, _, _ in runs),
            "percent_of_run": round(statistics.median(shares), 2),
            "middle_half_percent": _middle_half(shares),
            "afterwards_ms": median_ms(after for _, _, after in runs),
        }
    result["recorded_blocks"] = {name: added(runs) for name, runs in found["blocks"].items()}
    result["idle_cpu_ms_per_s"] = {
        "with": round(found["idle_with"], 3), "without": round(found["idle_without"], 3)
    }
    return result


def _middle_half(values: list[float]) -> list[float]:
    quarters = statistics.quantiles(values, n=4)
    return [round(quarters[0], 2), round(quarters[2], 2)]


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

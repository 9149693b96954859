"""The bundled workflows with our nodes and without them, at the same capacity.

    python benchmarks/workflows.py --comfyui PATH [--only NAME ...] [--write]

Each workflow runs in a real ComfyUI on the simulated GPU (that of mixed sizes on PyTorch's own
allocator, over the fake CUDA driver) with small random-weight models, see
`tools/workflow_models.py`: once as it is bundled and once with none of our nodes (see
`tools/stock.py`). Measured for both:
- the peak of reserved bytes on a device with room, and the bytes that stay after the prompt;
- the smallest capacity that completes, to `--step` of it, and what the other says at that capacity.
For the prompt loop, under `--gpu-only` (nothing leaves the GPU, as in the published script), also
the bytes that each further prompt adds. `--write` records the figures; those of the workflows that
are not in `--only` stay as they were recorded. The notes in the workflows show them.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools import results
from tools.bench_device import narrowed, served
from tools.bench_run import alone
from tools.device import MIB, ROOM_MIB, Device
from tools.workflow_models import make_workflow_models
from tools.workflow_trials import (
    CASES,
    ENVIRONMENT,
    Case,
    both_prompts,
    prompt_lines,
    write_example_picture,
)
from tools.workflows import WORKFLOWS

NAME = "workflows"
EMPTIED_S = 11.0  # within ten seconds of a prompt ComfyUI empties torch's cache
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=list(WORKFLOWS), default=list(WORKFLOWS))
    parser.add_argument("--step", type=float, default=0.04, help="of the search, as a share")


def run(args: argparse.Namespace) -> Json:
    """Return the figures of each workflow; bytes are exact, no time is measured."""
    measured = {name: measure(name, CASES[name], args) for name in args.only}
    return results.of(NAME, Path(args.comfyui)) | measured


def measure(name: str, case: Case, args: argparse.Namespace) -> Json:
    device_of = argparse.Namespace(comfyui=args.comfyui, fake_cuda=case.by_blocks)
    with served(
        device_of, ROOM_MIB, flags=case.flags, packs=["headroom_small_encoders"],
        models_dir=make_workflow_models(args.comfyui), env={"OMP_NUM_THREADS": "2", **ENVIRONMENT},
        prepare=lambda base: write_example_picture(base / "input"),
    ) as device:
        trials = Trials(device, args.step)
        prompts = both_prompts(name)
        result: Json = {"flags": list(case.flags), "changes": case.changes}
        for kind, prompt in prompts.items():
            result[kind] = trials.with_room(prompt)
        if case.lines_of:
            result["loop"] = trials.loop(name)
        if case.searched:
            trials.search(prompts, result)
        return result


class Trials:
    """What is measured on one device."""

    def __init__(self, device: Device, step: float) -> None:
        self.device, self.step = device, step

    def with_room(self, prompt: Json) -> Json:
        """Peak and what stays, on an empty device with room for everything."""
        error = self.device.attempt(prompt, ROOM_MIB)
        assert error is None, error
        time.sleep(EMPTIED_S)
        figures = vars(self.device.collect())
        names = {"peak_reserved": "peak_reserved", "peak_allocated": "peak_allocated",
                 "left_allocated": "allocated", "left_reserved": "reserved"}
        return {f"{name}_mib": round(figures[f"{figure}_bytes"] / MIB, 1)
                for name, figure in names.items()}

    def search(self, prompts: dict[str, Json], result: Json) -> None:
        """Add the smallest capacities, and what both say at the smallest of ours."""
        capacity = int(result["stock"]["peak_reserved_mib"]) + 1
        for kind, prompt in prompts.items():  # ours begins where stock ended
            capacity = self.smallest(prompt, capacity)
            result[kind]["smallest_capacity_mib"] = capacity
        result["same_capacity"] = {
            "capacity_mib": capacity,
            "stock": self.device.words(prompts["stock"], capacity),
            "headroom": "completed",  # the search has just seen it
        }
        if result["same_capacity"]["stock"] == "completed":  # within a step of its own search
            result["stock"]["smallest_capacity_mib"] = capacity

    def smallest(self, prompt: Json, high: int) -> int:
        """The smallest capacity that completes, found by halving the interval below `high`."""
        low = 0

        def completes(mib: int) -> bool:
            print(f"  {mib} MiB", file=sys.stderr, flush=True)
            return self.device.attempt(prompt, mib) is None

        while not completes(high):
            low, high = high, int(high * 1.25)
        return narrowed(completes, low, high,
                        near=lambda low, high: high - low <= max(4, self.step * high))

    def loop(self, name: str) -> Json:
        """The growth per further prompt, and both at a capacity between."""
        counts = (4, 12)
        prompts = {n: both_prompts(name, **prompt_lines(name, n)) for n in counts}
        grown: Json = {"prompts": list(counts)}
        for kind in ("stock", "headroom"):
            runs = [self.with_room(prompts[n][kind]) for n in counts]
            for figure in ("left_allocated_mib", "peak_reserved_mib"):
                grown[f"{kind}_{figure}"] = [found[figure] for found in runs]
        capacity = grown["stock_peak_reserved_mib"][0] + 16
        grown["capacity_mib"] = capacity
        for kind in ("stock", "headroom"):
            grown[f"{kind}_{counts[1]}_prompts"] = self.device.words(
                prompts[counts[1]][kind], capacity
            )
        return grown


if __name__ == "__main__":
    alone()

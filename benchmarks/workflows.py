"""The bundled workflows with our nodes and without them, at the same capacity.

    python benchmarks/workflows.py --comfyui PATH [--only NAME ...] [--write]

Each workflow runs in a real ComfyUI on the simulated GPU, whose memory figures are exact, with
small random-weight models (see `devtools/workflow_models.py`), once as it is bundled and once with
none of our nodes (see `devtools/stock.py`). Measured for both:
- the peak of reserved bytes on a device with room, and the bytes that stay after the prompt;
- the smallest capacity that completes, to `--step` of it, and what the other says at that capacity.
For the prompt loop, under `--gpu-only` (nothing leaves the GPU, as in the published script), also
the bytes that each further prompt adds. `--write` puts the result into `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "workflows"
ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from devtools.client import Client, PromptFailed  # noqa: E402
from devtools.graph import forget_everything  # noqa: E402
from devtools.server import ComfyServer  # noqa: E402
from devtools.stock import without_headroom  # noqa: E402
from devtools.workflow_models import make_workflow_models  # noqa: E402
from devtools.workflow_trials import (  # noqa: E402
    ENVIRONMENT,
    small_prompt,
    write_example_picture,
)
from devtools.workflows import WORKFLOWS  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PACK = ROOT / "tests" / "host" / "packs" / "headroom_small_encoders"
ROOM_MIB = 16384
TIMEOUT = 1800.0
MIB = 2**20
OUT_OF_MEMORY = ("OutOfMemoryError", "OomGuardError")
Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """How one workflow is tried: the server's flags, changed values, and what is measured."""

    flags: tuple[str, ...] = ()
    changes: Json = field(default_factory=dict)
    searched: bool = True  # whether the smallest capacity is looked for
    prompts: str = ""  # the input whose lines are multiplied, if any


LINE = "A red fox runs through fresh snow, take {}"
CASES = {
    "start_here": Case(),
    "diffsynth_prompt_loop": Case(
        flags=("--gpu-only",), searched=False, prompts="Prompts, one a line.text"
    ),
    "onediff_mixed_sizes": Case(
        changes={"Size Sorter: 16 sizes.sizes": "128x128\n128x144\n170x192"}
    ),
    "infiniteyou_720p_bf16": Case(changes={"KSampler.steps": 1}),
    "diffusers_encode_only": Case(searched=False),
    "sd_controlnet_switch": Case(
        changes={"EmptyLatentImage.width": 128, "EmptyLatentImage.height": 128}
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comfyui", default=os.environ.get("COMFYUI_PATH"), help="ComfyUI tree")
    parser.add_argument("--only", nargs="+", choices=list(WORKFLOWS), default=list(WORKFLOWS))
    parser.add_argument("--step", type=float, default=0.04, help="of the search, as a share")


def run(args: argparse.Namespace) -> Json:
    """Return the figures of each workflow; bytes are exact, no time is measured."""
    return {name: measure(name, CASES[name], args) for name in args.only}


def measure(name: str, case: Case, args: argparse.Namespace) -> Json:
    with served(Path(args.comfyui), case.flags) as client:
        bench = Bench(client, args.step)
        prompts = both(small_prompt(name, **case.changes))
        result: Json = {"flags": list(case.flags), "changes": case.changes}
        for kind, prompt in prompts.items():
            result[kind] = bench.with_room(prompt)
        if case.prompts:
            result["loop"] = bench.loop(name, case)
        if case.searched:
            bench.search(prompts, result)
    return result


def both(prompt: Json) -> dict[str, Json]:
    return {"stock": without_headroom(prompt), "headroom": prompt}


@contextmanager
def served(comfyui: Path, flags: tuple[str, ...]) -> Iterator[Client]:
    models = make_workflow_models()
    with tempfile.TemporaryDirectory() as base:
        write_example_picture(Path(base) / "input")
        with ComfyServer(
            comfyui, Path(base), args=flags, simulate_mib=ROOM_MIB, packs=[PACK],
            models_dir=models, env={"OMP_NUM_THREADS": "2", **ENVIRONMENT},
        ) as server:
            yield server.client()


class Bench:
    """Prompts on a device whose capacity can be set."""

    def __init__(self, client: Client, step: float) -> None:
        self.client = client
        self.step = step

    def with_room(self, prompt: Json) -> Json:
        """Peak and what stays, on an empty device with room for everything."""
        error = self.attempt(prompt, ROOM_MIB)
        assert error is None, error
        peak = self.post("collect")
        return {
            "peak_reserved_mib": _mib(peak["peak_reserved_bytes"]),
            "peak_allocated_mib": _mib(peak["peak_allocated_bytes"]),
            "left_allocated_mib": _mib(peak["allocated_bytes"]),
            "left_reserved_mib": _mib(peak["reserved_bytes"]),
        }

    def search(self, prompts: dict[str, Json], result: Json) -> None:
        """Add the smallest capacities, and what stock says at the smallest of ours."""
        for kind, prompt in prompts.items():
            peak = result[kind]["peak_reserved_mib"]
            result[kind]["smallest_capacity_mib"] = self.smallest(prompt, peak)
        capacity = result["headroom"]["smallest_capacity_mib"]
        result["same_capacity"] = {
            "capacity_mib": capacity,
            **{kind: self.words(prompt, capacity) for kind, prompt in prompts.items()},
        }

    def smallest(self, prompt: Json, peak_mib: float) -> int:
        """The smallest capacity that completes, found by halving the interval below the peak."""
        low, high = 0, int(peak_mib) + 1
        while self.attempt(prompt, high) is not None:
            low, high = high, int(high * 1.25)
        while high - low > max(4, self.step * high):
            middle = (low + high) // 2
            if self.attempt(prompt, middle) is None:
                high = middle
            else:
                low = middle
            print(f"  {low}..{high} MiB", file=sys.stderr, flush=True)
        return high

    def words(self, prompt: Json, capacity_mib: float) -> str:
        return self.attempt(prompt, capacity_mib) or "completed"

    def loop(self, name: str, case: Case) -> Json:
        """The growth per further prompt, and both at a capacity between."""
        counts = (4, 12)
        texts = {n: "\n".join(LINE.format(i) for i in range(n)) for n in counts}
        prompts = {
            n: both(small_prompt(name, **case.changes, **{case.prompts: text}))
            for n, text in texts.items()
        }
        grown: Json = {"prompts": list(counts)}
        for kind in ("stock", "headroom"):
            runs = [self.with_room(prompts[n][kind]) for n in counts]
            for figure in ("left_allocated_mib", "peak_reserved_mib"):
                grown[f"{kind}_{figure}"] = [found[figure] for found in runs]
        capacity = grown["stock_peak_reserved_mib"][0] + 16
        grown["capacity_mib"] = capacity
        for kind in ("stock", "headroom"):
            grown[f"{kind}_{counts[1]}_prompts"] = self.words(prompts[counts[1]][kind], capacity)
        return grown

    def attempt(self, prompt: Json, capacity_mib: float) -> str | None:
        """Run on an empty device of that capacity: None, or the out-of-memory error's words."""
        self.post("capacity", {"mib": ROOM_MIB})
        forget_everything(self.client)
        self.post("collect")
        self.post("capacity", {"mib": capacity_mib})
        self.post("reset_peaks")
        try:
            self.client.run(prompt, timeout=TIMEOUT)
        except PromptFailed as error:
            kind = error.exception_type.rpartition(".")[2]
            if kind not in OUT_OF_MEMORY:
                raise
            words = error.exception_message.strip().splitlines()[0]
            return f"{error.node_type}: {kind}: {words}"
        return None

    def post(self, what: str, body: Json | None = None) -> Json:
        status, answer = self.client.post_json(f"/simgpu/{what}", body or {})
        assert status == 200, answer
        return dict(answer)


def _mib(nbytes: int) -> float:
    return round(nbytes / MIB, 1)


def about(comfyui: Path) -> Json:
    """What the figures were measured on."""
    import torch

    version = (comfyui / "comfyui_version.py").read_text(encoding="utf-8")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return {
        "device": "simulated GPU",
        "comfyui": version.partition('"')[2].partition('"')[0],
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "commit": commit.stdout.strip(),
    }


def write(comfyui: Path, figures: Json) -> Path:
    """Put the figures into the results file of this ComfyUI; other workflows' figures stay."""
    facts = about(comfyui)
    path = RESULTS / f"workflows-simulated-{facts['comfyui']}.json"
    known = json.loads(path.read_text(encoding="utf-8"))["workflows"] if path.exists() else {}
    RESULTS.mkdir(exist_ok=True)
    data = {**facts, "workflows": {**known, **figures}}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--write", action="store_true", help="into benchmarks/results/")
    options = parser.parse_args()
    found = run(options)
    print(json.dumps(found, indent=1))
    if options.write:
        print(write(Path(options.comfyui), found))

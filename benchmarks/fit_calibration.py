"""The fake driver's figures against published ones of real GPUs: the same calls, the same count.

    python benchmarks/fit_calibration.py [--cases NAME ...]

Each case (fit_cases.py, fit_cases_video.py) runs without workspaces for convolutions and with the
most that `dev.py fit` counts with (tools/fit_range.py); where weights are streamed the latter has
one more layer. A published figure (fit_published.py) is inside where it lies between the two, give
or take 1 %: figures are rounded, and libraries have other versions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import on_path  # noqa: F401
from fit_published import CARD_GIB, PUBLISHED, TEMPLATES, Published
from fit_template import answer_for

from tools.bench_run import alone
from tools.comfyui import VARIABLE
from tools.dry_server import COPY_AT_MOST_KIB
from tools.errors import DevError, NotHere
from tools.fit_range import MOST_COPIES
from tools.lab import fake_cuda
from tools.results import FAKE

NAME = "fit_calibration"
DEVICE = FAKE
PICTURES, VIDEOS = (Path(__file__).with_name(name)
                    for name in ("fit_cases.py", "fit_cases_video.py"))
CAPACITY_MIB = 131072
ROUNDING = 0.01
LIMIT_S = 1800
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = list(dict.fromkeys(one.case for one in PUBLISHED))
    parser.add_argument("--cases", nargs="+", choices=names, default=names)


def run(args: argparse.Namespace) -> Json:
    """Return for each published figure the range of ours, and by how much it lies outside."""
    if reason := fake_cuda().why_not():
        raise NotHere(reason)
    runs = [measured(args.cases, copies) for copies in (0, MOST_COPIES)]
    ours = {name: [run[name] for run in runs if name in run] for name in args.cases}
    ours |= {name: of_template(name) for name in args.cases if is_template(name)}
    rows = [row_of(one, ours[one.case]) for one in PUBLISHED if one.case in ours]
    return {"rounding": ROUNDING, "rows": rows, **summary(rows)}


def measured(names: Sequence[str], layout_copies: float) -> dict[str, float]:
    """The GiB of each case; without those from the first on that stopped its script."""
    package = fake_cuda()
    devices = package.FakeCuda(
        capacity_mib=CAPACITY_MIB, allocator="native", capability="8.0",
        copy_at_most_kib=COPY_AT_MOST_KIB, cudnn_layout_copies=layout_copies)
    found: dict[str, float] = {}
    is_video = {name: f'"{name}": ' in VIDEOS.read_text(encoding="utf-8") for name in names}
    for script in (PICTURES, VIDEOS):
        mine = [name for name in names
                if is_video[name] == (script == VIDEOS) and not is_template(name)]
        if not mine:
            continue
        with tempfile.TemporaryDirectory() as cwd:
            done = subprocess.run(package.command(devices, script, *mine), capture_output=True,
                                  text=True, timeout=LIMIT_S, cwd=cwd)
        if done.returncode:
            print(f"{script.name} stopped:\n{done.stderr[-2000:]}", file=sys.stderr)
        for one in map(json.loads, done.stdout.strip().splitlines()):
            found[one["case"]] = one["gib"] + (one["layer_gib"] if layout_copies else 0)
        print(f"{script.name}, {layout_copies:g} copies: {found}", file=sys.stderr, flush=True)
    return found


def is_template(name: str) -> bool:
    return any(one.case == name and one.source == TEMPLATES for one in PUBLISHED)


def of_template(name: str) -> list[float]:
    """The range of `dev.py fit` for a template of the ComfyUI under test, in GiB.

    With what the allocator keeps: the sources count all that is in use on the card.
    """
    try:
        told = answer_for(Path(os.environ.get(VARIABLE, "")), name, "--cards", str(CARD_GIB))
    except DevError:
        return []
    trial = told["trials"][0]
    low, high = trial["range_mib"]
    return [low / 1024, max(high, trial["peak_mib"]) / 1024]


def row_of(published: Published, ours: list[float]) -> Json:
    """One line of the table. `outside`: below 0 where a real card took more than our most.

    None where the case stopped.
    """
    row: Json = {**published._asdict(), "published_gib": round(published.gib, 3),
                 "low_gib": None, "high_gib": None, "outside": None}
    if len(ours) == 2:
        low, high = (round(gib, 3) for gib in ours)
        nearest = min(max(published.gib, low), high)
        row |= {"low_gib": low, "high_gib": high, "outside": round(nearest / published.gib - 1, 4)}
    return {**row, "inside": row["outside"] is not None and abs(row["outside"]) <= ROUNDING}


def summary(rows: list[Json]) -> Json:
    """How many are inside the range, how wide it is in the middle, and the worst on each side."""
    outside = [row["outside"] for row in rows if row["outside"] is not None]
    wide = [row["high_gib"] / row["low_gib"] - 1 for row in rows if row["low_gib"]]
    return {"count": len(rows), "inside": sum(row["inside"] for row in rows),
            "median_width": round(statistics.median(wide), 4) if wide else None,
            "worst_underestimate": min([0.0, *outside]),
            "worst_overestimate": max([0.0, *outside])}


if __name__ == "__main__":
    alone()

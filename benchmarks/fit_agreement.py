"""Whether `dev.py fit`'s one server says what a fresh server of that capacity says.

    python benchmarks/fit_agreement.py --comfyui PATH [--workflow NAME] [--around N]

A bundled workflow at its real sizes. The smallest capacity that completes and the smallest on which
nothing streams are searched for on one server; then N capacities around each, a step of 1 % apart,
are run on that server, one after the other, and each on a server of its own. They may differ in
nothing: not in the word, not in the bytes a step, not in the node that fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from devtools.bench_device import narrowed
from devtools.bench_run import alone
from devtools.dry_server import DryServer
from devtools.errors import NotHere
from devtools.fake_cuda import fake_cuda
from devtools.fit_files import Found, add_pictures, find_models
from devtools.fit_prompt import fewer_steps
from devtools.fit_run import PLAIN, Fit
from devtools.fit_verdict import Verdict
from devtools.results import FAKE
from devtools.workflows import WORKFLOWS, published_prompt

NAME = "fit_agreement"
DEVICE = FAKE
CONTEXT_MIB = 400.0
NEAR_MIB = 8
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workflow", choices=WORKFLOWS, default="start_here")
    parser.add_argument("--around", type=int, default=20, help="capacities at each threshold")
    parser.add_argument("--high", type=int, default=24576, help="MiB that surely suffice")


def run(args: argparse.Namespace) -> Json:
    """Return the thresholds in MiB, how many capacities were compared, and where they differ."""
    if reason := fake_cuda().why_not():
        raise NotHere(reason)
    tree = Path(args.comfyui)
    prompt = fewer_steps(published_prompt(args.workflow))
    found = find_models(prompt, [], tree)
    with tempfile.TemporaryDirectory() as base, started(tree, base, prompt, found) as dry:
        told = cached(lambda mib: verdict(dry, prompt, mib))
        edges = thresholds(told, args.high)
        compared = sorted({mib for edge in edges.values() for mib in around(edge, args.around)})
        differ = []
        for mib in compared:
            one, fresh = told(mib), alone_at(tree, prompt, found, mib)
            print(f"{mib} MiB: {one.text} | {fresh.text}", file=sys.stderr, flush=True)
            if one != fresh:
                differ.append({"mib": mib, "one_server": one.text, "fresh_server": fresh.text})
    problems = [f"{len(differ)} of {len(compared)} verdicts differ"] if differ else []
    return {"workflow": args.workflow, **edges, "compared": len(compared), "differ": differ,
            "problems": problems}


def started(
    tree: Path, base: str, prompt: Json, found: Found, capacity_mib: float = 1 << 20
) -> DryServer:
    add_pictures(prompt, None, Path(base) / "input")
    dry = DryServer(tree, Path(base), capacity_mib, env={"HEADROOM_DRY_RAM_MIB": "32768"},
                    settings={"context_mib": CONTEXT_MIB, "capability": "8.9",
                              "cudnn_layout_copies": 1.0})
    dry.add_models(found.files)
    return dry


def verdict(dry: DryServer, prompt: Json, mib: float) -> Verdict:
    info = dry.client.get_json("/object_info")
    fit = Fit(dry, prompt, info, guard=False, context_mib=CONTEXT_MIB, show=False)
    return fit.trial(mib / 1024, PLAIN, prompt)[0].verdict


def alone_at(tree: Path, prompt: Json, found: Found, mib: float) -> Verdict:
    """The verdict of a server that has never seen another capacity or prompt."""
    with tempfile.TemporaryDirectory() as base, \
            started(tree, base, prompt, found, mib) as dry:
        info = dry.client.get_json("/object_info")
        fit = Fit(dry, prompt, info, guard=False, context_mib=CONTEXT_MIB, show=False)
        return fit.run(mib / 1024, PLAIN, prompt)[0].verdict


def thresholds(told: Callable[[int], Verdict], high: int) -> dict[str, int]:
    """The smallest capacity that completes, and the smallest on which nothing streams."""
    low = int(CONTEXT_MIB) + 16

    def near(low: int, high: int) -> bool:
        return high - low <= NEAR_MIB

    completes = narrowed(lambda mib: told(mib).word in ("streams", "resident"), low, high, near)
    resident = narrowed(lambda mib: told(mib).word == "resident", completes - NEAR_MIB, high, near)
    return {"completes_mib": completes, "resident_mib": resident}


def around(edge: int, count: int) -> list[int]:
    return [round(edge * (1 + (k - count // 2) / 100)) for k in range(count)]


def cached(ask: Callable[[int], Verdict]) -> Callable[[int], Verdict]:
    known: dict[int, Verdict] = {}

    def told(mib: int) -> Verdict:
        if mib not in known:
            known[mib] = ask(mib)
        return known[mib]

    return told


if __name__ == "__main__":
    alone()

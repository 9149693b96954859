"""Whether `dev.py fit`'s one server says what a fresh server of that capacity says.

    python benchmarks/fit_agreement.py --comfyui PATH [--only NAME ...] [--templates NAME ...]
        [--around N] [--minutes N] [--state FILE]

The bundled workflows and ComfyUI's own templates, at their real sizes. The smallest capacity that
completes and the smallest on which nothing streams are searched for on one server; then N
capacities around each, a step of 1 % apart, are run on that server, one after the other, and each
on a server of its own. They must agree in the word, in the bytes of a step and in the node that
fails. ComfyUI loads a model and its ControlNet in the order of a set of objects, which changes from
run to run, and with it what streams; so if they differ, both run again, up to AGAIN times, until
one has given a verdict that the other gave too; these are counted (`repeated`). `--state` keeps
every verdict, so that the same command goes on where it ended; what was not reached in `--minutes`
is reported as not compared.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools.bench_device import narrowed
from tools.bench_run import alone
from tools.dry_server import ROOM_MIB, DryServer
from tools.errors import NotHere
from tools.fake_cuda import fake_cuda
from tools.fit_files import Found, find_models
from tools.fit_inputs import add_inputs
from tools.fit_run import PLAIN, Fit, Trial
from tools.fit_steps import fewer_steps
from tools.fit_verdict import Verdict
from tools.jobs import read_prompt
from tools.models import asking
from tools.public_models import SCRIPT
from tools.results import FAKE
from tools.templates import template_file
from tools.workflows import WORKFLOWS, published_prompt

NAME = "fit_agreement"
DEVICE = FAKE
CONTEXT_MIB = 400.0
LEAST_MIB = int(CONTEXT_MIB) + 16  # on less ComfyUI does not start
NEAR_MIB = 8
AGAIN = 5
FIRST_GUESS_MIB = 2816  # doubled until it is enough
SETTINGS = {"context_mib": CONTEXT_MIB, "capability": "8.9", "cudnn_layout_copies": 1.0}
TEMPLATES = ("default", "image2image", "inpaint_example", "controlnet_example",
             "sdxlturbo_example", "flux_dev_checkpoint_example", "text_to_video_wan",
             "image_z_image_turbo")
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="*", choices=WORKFLOWS, default=list(WORKFLOWS))
    parser.add_argument("--templates", nargs="*", default=list(TEMPLATES), metavar="NAME")
    parser.add_argument("--around", type=int, default=4, help="capacities at each threshold")
    parser.add_argument("--minutes", type=float, default=600, help="begin nothing after so many")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep verdicts there")


def run(args: argparse.Namespace) -> Json:
    """Return for each workflow its thresholds in MiB, how many were compared, what differs."""
    if reason := fake_cuda().why_not():
        raise NotHere(reason)
    until = time.monotonic() + args.minutes * 60
    found: Json = {}
    for name in (*args.only, *args.templates):
        if time.monotonic() > until:
            break
        with Compared(name, Path(args.comfyui), args.state) as one:
            found[name] = one.compare(args.around, until)
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    counted = [len(one["differ"]) for one in found.values()]
    problems = [f"{name}: {len(one['differ'])} of {one['compared']} verdicts differ"
                for name, one in found.items() if one["differ"]]
    return {"workflows": found, "around": args.around, "differ": sum(counted),
            "compared": sum(one["compared"] for one in found.values()),
            "repeated": sum(one["repeated"] for one in found.values()), "problems": problems}


class Compared:
    """A workflow on one server that runs every capacity, and on servers that run one each.

    Servers start when they are asked something that is not known yet.
    """

    def __init__(self, name: str, tree: Path, state: Path | None) -> None:
        self.tree, self.name, self.state = tree, name, state
        self.file = None if name in WORKFLOWS else template_file(name)
        data = published_prompt(name) if self.file is None else json.loads(self.file.read_text())
        self.data: Json = data
        self.known = self._read_state()
        self.stack = ExitStack()

    def __enter__(self) -> Compared:
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    @cached_property
    def found(self) -> Found:
        return find_models(self.data, {}, asking(self.tree, SCRIPT))

    @cached_property
    def one(self) -> Fit:
        base = self.stack.enter_context(tempfile.TemporaryDirectory())
        dry = self.stack.enter_context(started(self, base))
        prompt = self.data if self.file is None else read_prompt(self.file, dry.client)
        fit = Fit(dry, fewer_steps(prompt), dry.client.get_json("/object_info"), guard=False,
                  context_mib=CONTEXT_MIB, show=False)
        fit.look_at_room()
        return fit

    def compare(self, count: int, until: float) -> Json:
        edges = thresholds(self.told)
        wanted = sorted({mib for edge in edges.values() for mib in around(edge, count)})
        compared = repeated = 0
        differ: list[Json] = []
        for mib in wanted:
            if time.monotonic() > until:
                break
            ones, freshes = self.said(mib)
            compared += 1
            repeated += len(ones) > 1
            if not set(ones) & set(freshes):
                differ.append({"mib": mib, "one_server": ones[0].text,
                               "fresh_server": freshes[0].text})
        words = {word: sum(self.told(mib).word == word for mib in wanted[:compared])
                 for word in ("fails", "streams", "resident")}
        return {**edges, **words, "compared": compared, "not_compared": len(wanted) - compared,
                "repeated": repeated, "differ": differ}

    def said(self, mib: int) -> tuple[list[Verdict], list[Verdict]]:
        """Return the verdicts of the one server and of fresh ones, until they share one."""
        ones, freshes = [self.told(mib)], [self.alone_at(mib)]
        for again in range(1, AGAIN + 1):
            if set(ones) & set(freshes):
                break
            ones.append(self.told(mib, f" again {again}"))
            freshes.append(self.alone_at(mib, f" again {again}"))
        return ones, freshes

    def told(self, mib: int, which: str = "") -> Verdict:
        """The verdict of the server that runs every capacity."""
        return self._kept(f"one{which}", mib,
                          lambda: self.one.trial(mib / 1024, PLAIN, self.one.prompt)[0])

    def alone_at(self, mib: int, which: str = "") -> Verdict:
        """The verdict of a server that has never seen another capacity or prompt."""
        def ask() -> Trial:
            one = self.one
            with tempfile.TemporaryDirectory() as base, started(self, base, mib) as dry:
                fit = copy.copy(one)
                fit.dry = dry
                return fit.run(mib / 1024, PLAIN, fit.prompt)[0]

        return self._kept(f"fresh{which}", mib, ask)

    def _kept(self, who: str, mib: int, ask: Callable[[], Trial]) -> Verdict:
        key = f"{self.tree.name} {self.name} {who} {mib}"
        if key not in self.known:
            self.known[key] = ask().verdict
            print(f"{key}: {self.known[key].text}", file=sys.stderr, flush=True)
            if self.state is not None:
                with self.state.open("a", encoding="utf-8") as file:
                    entry = self.known[key].as_json()
                    file.write(json.dumps({"key": key, **entry}) + "\n")
        return self.known[key]

    def _read_state(self) -> dict[str, Verdict]:
        if self.state is None or not self.state.exists():
            return {}
        entries = [json.loads(line) for line in self.state.read_text().splitlines()]
        return {one["key"]: Verdict(one["word"], one["mib"], one["node"], one["why"],
                                    most_mib=one.get("most_mib"))
                for one in entries}


def started(what: Compared, base: str, capacity_mib: float = 1 << 20) -> DryServer:
    add_inputs(what.data, None, Path(base) / "input")
    dry = DryServer(what.tree, Path(base), capacity_mib, settings=SETTINGS,
                    env={"HEADROOM_DRY_RAM_MIB": "32768"})
    dry.add_models(what.found.files)
    return dry


def thresholds(told: Callable[[int], Verdict]) -> dict[str, int]:
    """The smallest capacity that completes, and the smallest on which nothing streams."""
    low, high = LEAST_MIB, FIRST_GUESS_MIB
    while told(high).word != "resident" and high < ROOM_MIB:
        high *= 2

    def near(low: int, high: int) -> bool:
        return high - low <= NEAR_MIB

    completes = narrowed(lambda mib: told(mib).word in ("streams", "resident"), low, high, near)
    resident = narrowed(lambda mib: told(mib).word == "resident", completes - NEAR_MIB, high, near)
    return {"completes_mib": completes, "resident_mib": resident}


def around(edge: int, count: int) -> list[int]:
    """Capacities a step of 1 % apart, with the edge in the middle unless ComfyUI starts on none."""
    first = max(-(count // 2), math.ceil((LEAST_MIB / edge - 1) * 100))
    return [round(edge * (1 + (first + k) / 100)) for k in range(count)]


if __name__ == "__main__":
    alone()

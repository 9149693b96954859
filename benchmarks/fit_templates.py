"""Every template of ComfyUI's own package through `dev.py fit`: a verdict, or why there is none.

    python benchmarks/fit_templates.py --comfyui PATH [--only NAME ...] [--again]

First the gate, in a minute for the whole package: one server reads each template, and says which
nodes it does not have and which files nobody knows. Then each template that passes is run by a
`dev.py fit` of its own, whose CPU time and largest process are recorded. Each row is recorded
as soon as it is there, so that the same command goes on where it ended. Templates with nodes that
compute on somebody else's server, for money, are counted and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools import results
from tools.bench_run import alone
from tools.comfyui import VARIABLE
from tools.dry_server import DryServer
from tools.errors import DevError, NotHere
from tools.fit_packs import NO_NODE
from tools.fit_prompt import ObjectInfo
from tools.fit_ready import ready
from tools.lab import fake_cuda
from tools.results import FAKE
from tools.template_package import templates_of

NAME = "fit_templates"
DEVICE = FAKE
CARDS = "8,16,24"
CPU_S, RAM_GIB = 60.0, 4.0  # what one template may take
LIMIT_S = 3600
NO_SUCH = "no such node"  # of this ComfyUI, or one that costs money: the dry server has none
Json = dict[str, Any]
Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", metavar="NAME",
                        help="run these templates, also such as have a row")
    parser.add_argument("--again", action="store_true", help="also those that have a row")


def run(args: argparse.Namespace) -> Json:
    """Return a row for every template: its gate, or the verdict a card with CPU time and RAM."""
    if reason := fake_cuda().why_not():
        raise NotHere(reason)
    templates = templates_of(Path(args.comfyui))
    if unknown := sorted(set(args.only or ()) - set(templates)):
        raise DevError(f"The package has no template {', '.join(unknown)}.")
    with tempfile.TemporaryDirectory(prefix="headroom-templates-") as base:
        rows = gates(Path(args.comfyui), Path(base), templates)
        recorded = results.of(NAME, Path(args.comfyui), DEVICE).get("rows", {})
        done = {name: row for name, row in recorded.items() if "cpu_s" in row and not args.again}
        passed = [name for name in rows if not rows[name]]
        rows |= {name: done[name] for name in passed
                 if name in done and name not in (args.only or ())}
        for name in args.only or passed:
            if not rows[name]:
                rows[name] = _tried(args.comfyui, Path(base), name, templates[name])
                print(f"{name}: {rows[name]}", file=sys.stderr, flush=True)
                results.record(NAME, summary(rows), args.comfyui, DEVICE)
    return summary(rows)


def gates(tree: Path, base: Path, templates: Mapping[str, Json]) -> dict[str, Row]:
    """Why a template cannot be run dry, by its name; {} for one that can be tried."""
    rows = {}
    with DryServer(tree, base / "gate") as dry:
        info = dry.client.get_json("/object_info")
        for name, data in templates.items():
            file = base / f"{name}.json"
            file.write_text(json.dumps(data), encoding="utf-8")
            rows[name] = _gate(file, data, dry, ObjectInfo(info))
    return rows


def _gate(file: Path, data: Json, dry: DryServer, registry: ObjectInfo) -> Row:
    try:
        prompt, found, _ = ready(file, data, {}, dry.client, registry,
                                 lambda wanted: [{} for _ in wanted])
    except DevError as error:
        return {"gate": NO_SUCH if str(error).startswith(NO_NODE) else "refused",
                "why": str(error)}
    missing = {value for node in prompt.values() for value in node["inputs"].values()
               if isinstance(value, str) and value in {*found.unknown, *found.unreadable}}
    return {"gate": "unknown file", "why": ", ".join(sorted(missing))} if missing else {}


def _tried(comfyui: str, base: Path, name: str, data: Json) -> Row:
    """What `dev.py fit` says of it: the verdicts, seconds of CPU, and the largest process."""
    file = base / f"{name}.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    words = [sys.executable, "-m", "tools.fit", str(file), "--json", "--cards", CARDS]
    env = {**os.environ, VARIABLE: comfyui}
    with (base / "out").open("w+b") as out, (base / "err").open("w+b") as err:
        process = subprocess.Popen(words, stdout=out, stderr=err, env=env,
                                   cwd=Path(__file__).resolve().parents[1])
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text, errors = (file.read().decode("utf-8", "replace").replace(comfyui, "ComfyUI")
                        for file in (out, err))
    row: Row = {"cpu_s": round(used.ru_utime + used.ru_stime, 1),
                "ram_gib": round(used.ru_maxrss / 2**20, 2)}
    if process.returncode:
        return {**row, "why": (errors.strip().splitlines() or ["no reason told"])[-1][:300]}
    trials = json.loads(text)["trials"]
    whys = {trial["verdict"]["why"].splitlines()[0] for trial in trials
            if trial["verdict"]["word"] in ("stopped", "not loaded") and trial["verdict"]["why"]}
    return {**row, "verdicts": " | ".join(trial["verdict"]["text"] for trial in trials),
            **({"why": "; ".join(sorted(whys))} if whys else {})}


def has_verdict(row: Row) -> bool:
    """Whether it says of every card whether the workflow runs there."""
    return "verdicts" in row and "why" not in row


def summary(rows: Mapping[str, Row]) -> Json:
    """How many of the templates came how far, and what those that were run took."""
    loadable = {name: row for name, row in rows.items() if row.get("gate") != NO_SUCH}
    tried = [row for row in loadable.values() if "cpu_s" in row]
    told = [row for row in tried if has_verdict(row)]
    return {
        "templates": len(rows), "loadable": len(loadable),
        "files_known": sum("gate" not in row for row in loadable.values()),
        "tried": len(tried), "verdicts": len(told),
        "within_limits": sum(row["cpu_s"] <= CPU_S and row["ram_gib"] <= RAM_GIB for row in told),
        "median_cpu_s": statistics.median([row["cpu_s"] for row in tried] or [0]),
        "median_ram_gib": statistics.median([row["ram_gib"] for row in tried] or [0]),
        "rows": {name: rows[name] for name in sorted(rows) if name in loadable},
    }


if __name__ == "__main__":
    alone()

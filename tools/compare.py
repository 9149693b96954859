"""`dev.py compare WORKFLOW.json --a TREE[,FLAG…] --b TREE[,FLAG…]`: what a change does.

`headroom-compare` is the same.

Runs a workflow dry (see `tools.fit`) on two ComfyUIs, or on one with other flags, and prints both
in one table, with what ComfyUI itself said about memory on one side only. `--servers URL URL` does
it with two real servers and their records.
"""

import argparse
import difflib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .address import server_url
from .client import Client, PromptFailed, failed
from .comfyui import checked_tree
from .environment import python_for
from .errors import DevError
from .fit import ROOT, cards
from .jobs import read_file, read_prompt
from .refusals import explained
from .run import WAIT_SECONDS, follow, record_of
from .table import UNKNOWN, render

CARDS_GIB = "8,16,24"
MOST_LINES = 12  # of ComfyUI's own, a card and side
# Such numbers differ a little from run to run; the rest of their lines is the same.
TINY = re.compile(r"\d+\.\d+ ?(s|sec|seconds|it/s)\b")
Json = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """A ComfyUI and its flags; `tree` is empty for the one that `dev.py` has."""

    tree: str
    flags: tuple[str, ...]

    def name(self, parts: int = 1) -> str:
        """The last `parts` of the folder's path, and the flags."""
        folder = "/".join(Path(self.tree).parts[-parts:]) or "ComfyUI"
        return " ".join([*[folder][:parts], *self.flags]) or "no flags"

    def each_alone(self) -> "list[Side]":
        """This side with one of its flags at a time, where it has several."""
        return [Side(self.tree, (flag,)) for flag in self.flags if len(self.flags) > 1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workflow", type=Path, metavar="WORKFLOW.json",
                        help="a workflow of the canvas, or an API prompt")
    for name in ("a", "b"):
        parser.add_argument(f"--{name}", type=side, metavar="TREE[,FLAG…]",
                            help="a ComfyUI folder (none: the one that a clone has), then flags "
                                 "with commas; several are also tried one by one")
    parser.add_argument("--servers", nargs=2, type=server_url, metavar="URL",
                        help="two running servers with Headroom instead, on real cards")
    parser.add_argument("--cards", type=cards, default=CARDS_GIB, metavar="GIB,GIB",
                        help=f"default: {CARDS_GIB}")
    parser.add_argument("--models", type=Path, action="append", default=[], metavar="FOLDER",
                        help="as in `fit`")
    parser.add_argument("--python", metavar="PATH", help="as in `fit`, for both")
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def side(text: str) -> Side:
    tree, *flags = text.split(",")
    flags = [flag for flag in flags if flag]
    if wrong := [flag for flag in flags if not flag.startswith("--")]:
        raise argparse.ArgumentTypeError(
            f"expected a folder, then flags that begin with --, not {wrong[0]!r}")
    return Side(str(Path(tree).expanduser().resolve()) if tree else "", tuple(flags))


def main(args: argparse.Namespace) -> int:
    if (args.servers is None) == (args.a is None or args.b is None) or (
            args.servers and len(set(args.servers)) == 1):
        raise DevError("Give two sides to compare: --a and --b, or --servers with two addresses.")
    read_file(args.workflow)  # its errors are told before anything starts
    if args.servers:
        answers = {url: on_server(url, args.workflow) for url in args.servers}
        text = of_servers(answers)
    else:
        sides = list(dict.fromkeys(
            [args.a, *args.a.each_alone(), args.b, *args.b.each_alone()]))
        for one in sides:  # a wrong folder is told before a run of minutes starts
            if one.tree:
                checked_tree(Path(one.tree))
        answers = {name: dry(one, args) for name, one in zip(names(sides), sides, strict=True)}
        text = of_dry_runs(answers)
    print(json.dumps(answers, indent=1) if args.json else f"\n{text}")
    return 0


def names(sides: Sequence[Side]) -> list[str]:
    """Return short names that differ: flags alone, or with the end of the folder's path."""
    fewest = 0 if len({one.tree for one in sides}) == 1 else 1
    return next(found for parts in (fewest, 2, 99)
                if len(set(found := [one.name(parts) for one in sides])) == len(sides))


# -- dry --------------------------------------------------------------------------------------


def dry(one: Side, args: argparse.Namespace) -> Json:
    """What `fit --json` says of this side; DevError with its last line where it says nothing."""
    python = str(python_for(args.python))
    words = [python, str(ROOT / "dev.py"), "fit", str(args.workflow), "--json",
             "--cards", ",".join(f"{gib:g}" for gib in args.cards)]
    words += ["--comfyui", one.tree] if one.tree else []
    words += ["--python", args.python] if args.python else []
    words += [word for folder in args.models for word in ("--models", str(folder))]
    flags = " ".join(one.flags)
    words += [f"--flags={flags}"] if flags else []
    print(f"{one.name()}: fit {shlex.join(words[3:])}", file=sys.stderr, flush=True)
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1].removeprefix("Error: ")
        raise DevError(f"{one.name()} gave no verdict: {last}")
    answer: Json = json.loads(done.stdout)
    return answer

DYNAMIC = "for dynamic VRAM"  # what ComfyUI says of a model that its pager streams


def of_dry_runs(answers: Mapping[str, Json]) -> str:
    """A table a card, and under it what ComfyUI said on one side only."""
    parts = [f"{next(iter(answers.values()))['workflow']}, dry"]
    for number, trial in enumerate(next(iter(answers.values()))["trials"]):
        trials = {name: answer["trials"][number] for name, answer in answers.items()}
        parts.append(_card(trial["card_gib"], trials))
        parts += _log_differences(trials)
    parts.append("Pinned memory is off in a dry run, and weights are counted and not copied: what "
                 "pinning changes, and seconds, only `--servers` can show.")
    if any(DYNAMIC in line for answer in answers.values() for trial in answer["trials"]
           for line in trial["log"]):
        parts.append("Dynamic VRAM frees pages by the clock too: on a full card two equal runs "
                     "differ by some hundred MiB, and in how many allocations found no room.")
    return "\n\n".join(parts)


def _card(gib: float, trials: Mapping[str, Json]) -> str:
    rows = [[f"{gib:g} GiB", "", *trials],
            ["", "verdict", *(each["verdict"]["text"] for each in trials.values())]]
    for title, figure in FIGURES.items():
        rows.append(["", title, *(f"{figure(each):,.0f}" for each in trials.values())])
    return render(rows)


def _moved_mib(trial: Json) -> float:
    return sum(float(node["copied_mib"]) for node in trial["nodes"])


FIGURES = {
    "largest peak, MiB": lambda trial: trial["peak_mib"],
    "moved a step, MiB":
        lambda trial: trial["verdict"]["mib"] if trial["verdict"]["word"] == "streams" else 0,
    "copied to the card in all, MiB": _moved_mib,
    "allocations that found no room": lambda trial: sum(n["refused"] for n in trial["nodes"]),
    "models loaded": lambda trial: _lines(trial, r"^Requested to load"),
    "models unloaded, whole or in part": lambda trial: _lines(trial, r"^Unload"),
}


def _lines(trial: Json, pattern: str) -> int:
    return sum(bool(re.search(pattern, line)) for line in trial["log"])


def _log_differences(trials: Mapping[str, Json]) -> Iterator[str]:
    """What each side said about memory and the first one did not, and the other way round."""
    (first, plain), *others = [(name, _without_times(each["log"])) for name, each in trials.items()]
    for name, lines in others:
        differ = [line for line in difflib.ndiff(plain, lines) if line[:2] in ("- ", "+ ")]
        if differ:
            left_out = len(differ) - 2 * MOST_LINES
            more = [f"  … and {left_out} lines more (--json has all)"] if left_out > 0 else []
            yield "\n".join([f"ComfyUI's own words, - {first}, + {name}:",
                             *(f"  {line}" for line in differ[: 2 * MOST_LINES]), *more])


def _without_times(lines: Sequence[str]) -> list[str]:
    return [TINY.sub("…", line) for line in lines]


# -- real servers -----------------------------------------------------------------------------


def on_server(url: str, workflow: Path) -> Json:
    """Run the workflow there once; its record with `error`, which is None where all went well."""
    client = Client(url)
    with explained(url):
        entry = follow(client, read_prompt(workflow, client), WAIT_SECONDS)
        run = record_of(client, entry)
        stats = client.get_json("/system_stats")["system"]
    if run is None:
        raise DevError(f"{url} has no record of the run: install Headroom there.")
    return {**run, "error": str(PromptFailed(entry)) if failed(entry) else None,
            "comfyui": stats.get("comfyui_version"), "argv": stats.get("argv", [])[1:]}


def of_servers(answers: Mapping[str, Json]) -> str:
    """The figures of both runs, then seconds and peaks of each node."""
    runs = list(answers.values())
    lines = [f"{url}: ComfyUI {run['comfyui']} {' '.join(run['argv'])}".rstrip()
             for url, run in answers.items()]
    rows = [["", "", *answers], ["", "status", *(run["status"] for run in runs)]]
    for key, title in (("seconds", "seconds"), ("peak_vram_mib", "largest peak, MiB"),
                       ("peak_rss_mib", "largest RAM, MiB")):
        rows.append(["", title, *(_number(run.get(key)) for run in runs)])
    rows.append(["", "pinned RAM after it, MiB", *(_number(_pinned_mib(run)) for run in runs)])
    rows.append(["", "recovered or failed calls", *(str(len(run["oom"])) for run in runs)])
    for key, title in (("seconds", "seconds"), ("peak_vram_mib", "peak, MiB")):
        found = [{node["node_id"]: node for node in run["nodes"]} for run in runs]
        for node_id, node in found[0].items():
            named = f"{node['title'] or node['class_type']}: {title}"
            rows.append([node_id, named,
                         *(_number(nodes.get(node_id, {}).get(key)) for nodes in found)])
    lines += [f"{url} failed: {run['error']}" for url, run in answers.items() if run["error"]]
    return "\n\n".join(["\n".join(lines), render(rows)])


def _pinned_mib(run: Json) -> float | None:
    """Of models in RAM; None if nobody could look, because the next prompt ran already."""
    held = run.get("ram_held")
    return None if held is None else sum(float(one["pinned_mib"]) for one in held["models"])


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}"

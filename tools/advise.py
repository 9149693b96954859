"""`python dev.py advise WORKFLOW.json --into GIB --out FILE`: make a workflow fit a smaller GPU.

Runs the workflow once on a server (or takes the record of a run that it has), asks for what is
needed, puts that into the prompt, writes it and says what to expect. What is written is an API
prompt, which ComfyUI opens too; on the canvas the panel's Apply changes the workflow itself. Needs
only Python.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from . import advice, budget
from .address import add_server
from .client import Client, PromptFailed, failed
from .errors import DevError
from .jobs import read_prompt
from .refusals import explained
from .run import add_timeout, follow
from .settings import parse_setting, with_settings

Json = dict[str, Any]
MIB_OF_GIB = 1024
NOT_REACHED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE",
                        help="a workflow of the canvas, or an API prompt")
    parser.add_argument("--into", type=float, metavar="GIB",
                        help="apply only what is needed for a GPU of this size; without it, all")
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="write the changed workflow there, as an API prompt; without it "
                             "nothing is written")
    add_server(parser)
    parser.add_argument("--record", metavar="PROMPT_ID",
                        help="a run of this workflow that the server still knows; without it, the "
                             "workflow is run once")
    parser.add_argument("--set", action="append", default=[], metavar="NODE.INPUT=VALUE",
                        dest="settings", help="change a value for that run. May be repeated")
    add_timeout(parser)


def main(args: argparse.Namespace) -> int:
    """Advise, apply and write; 3 where the size may not be reached, 1 for errors."""
    if args.into is not None and not 0 < args.into < 10_000:
        raise DevError(f"--into expects a size in GiB such as 8, but got {args.into:g}.")
    with explained(args.server):
        return _advise(args, Client(args.server))


def _advise(args: argparse.Namespace, client: Client) -> int:
    prompt = read_prompt(args.file, client)
    prompt_id = args.record or _run(args, client, prompt)
    status, run = client.get(f"/headroom/runs/{prompt_id}")
    if status != 200:
        raise DevError(f"The server has no record of run {prompt_id}: {run.get('error')}")
    if run["peak_vram_mib"] is None:
        raise DevError("This server runs its models on the CPU: there is no GPU memory to save.")
    found = advice.of(client, prompt_id, args.into)
    print(f"\nMeasured: {run['peak_vram_mib']:,.0f} MiB on {run['device']} at most.")
    print(advice.text(found))
    edits = [one for one in found if one["edit"] is not None]
    changed = advice.applied(prompt, edits)  # also shows that every edit fits
    if args.out is not None:
        _write(args, edits, changed)
    return _verdict(args.into, run, found)


def _run(args: argparse.Namespace, client: Client, prompt: Json) -> str:
    """Run it once; a run that ends out of memory says where it needs most."""
    budget.begin_anew(client)
    settings = dict(parse_setting(text) for text in args.settings)
    entry = follow(client, with_settings(prompt, settings), args.timeout)
    if failed(entry) and not PromptFailed(entry).out_of_memory:
        raise DevError(str(PromptFailed(entry)))
    return str(entry["prompt_id"])


def _write(args: argparse.Namespace, edits: list[Json], changed: Json) -> None:
    try:
        args.out.write_text(json.dumps(changed, indent=2, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise DevError(f"{args.out} cannot be written: {error.strerror}.") from error
    print(f"Written: {args.out}, with {len(edits)} change{'s' * (len(edits) != 1)}.")


def _verdict(into_gib: float | None, run: Json, found: list[Json]) -> int:
    """Say what peak to expect."""
    if into_gib is None:
        return 0
    now = [run["peak_vram_mib"], run["peak_vram_at_most_mib"] or run["peak_vram_mib"]]
    expected = found[-1]["expected_mib"] if found else now
    target = into_gib * MIB_OF_GIB
    print(f"Expected: {advice.span(expected)} at most, where {target:,.0f} MiB are wanted.")
    if expected[1] <= target:
        return 0
    print("That may not be enough: OOM Guard goes on in smaller pieces where memory runs short, "
          "and a smaller size or batch needs less.")
    return NOT_REACHED

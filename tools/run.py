"""`python dev.py run FILE … --server URL`: queue workflows or prompts on any ComfyUI server.

Needs only Python. With the `websocket-client` package the bar also shows the steps of a sampler;
without it, it follows the server's record of the run.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import advice, budget
from .address import add_server
from .client import Client, PromptFailed, failed, failure_of, node_texts
from .errors import DevError
from .events import NoEvents, Unfinished
from .jobs import Job, jobs_of
from .progress import ProgressBar
from .refusals import explained
from .table import run_table

POLL_SECONDS = 0.5
WAIT_SECONDS = 24 * 3600.0
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE",
        help="a workflow of the canvas, or an API prompt; several run one after another",
    )
    add_server(parser)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NODE.INPUT=VALUE", dest="settings",
        help="change a value; NODE is an id, a title or a class name. May be repeated",
    )
    parser.add_argument(
        "--seed", type=int, action="append", default=[], metavar="N", dest="seeds",
        help="run with this seed in every node that has one. May be repeated: a run for each",
    )
    add_timeout(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON list, for machines")
    parser.add_argument(
        "--advice", action="store_true", help="also say what to change, and what that saves"
    )
    budget.add_arguments(parser)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", type=float, default=WAIT_SECONDS, metavar="SECONDS",
        help="how long to wait for a run, which goes on without us then; default: a day",
    )


def main(args: argparse.Namespace) -> int:
    """Run everything; 1 when a run failed, else 3 when one went over its budget, else 0."""
    client = Client(args.server)
    results: list[Json] = []
    try:
        with explained(args.server):
            jobs = jobs_of(args, client)
        for result in run_all(jobs, client, args):
            results.append(result)
    finally:  # also of what was run before a server died
        if args.json:
            print(json.dumps(results, indent=2))
    if any(result["error"] for result in results):
        return 1
    return budget.EXIT_CODE if any(result["over_budget"] for result in results) else 0


def run_all(jobs: list[Job], client: Client, args: argparse.Namespace) -> Iterator[Json]:
    """Run one job after another with one progress bar; yield what --json prints of each.

    DevError where one cannot be run to its end; what there is to say of it is yielded before.
    """
    out = sys.stderr if args.json else sys.stdout
    bar = ProgressBar({}, out, total=sum(len(job.prompt) for job in jobs))
    for job in jobs:
        bar.go_on_with(titles_of(job.prompt), job.label if len(jobs) > 1 else "")
        try:
            with explained(args.server):
                result = run_one(job, client, args, bar)
        except DevError as error:
            yield result_of(job, {}, {}, [], str(error))
            raise
        yield result


def run_one(job: Job, client: Client, args: argparse.Namespace, bar: ProgressBar) -> Json:
    """Run a job, print what came of it, and return what --json prints."""
    if args.advice or budget.is_set(args):
        budget.begin_anew(client)
    entry = follow(client, job.prompt, args.timeout, bar)
    bar.leave()
    run = record_of(client, entry)
    if run is not None and run.get("rescued_as"):
        entry = rerun_of(client, entry, str(run["rescued_as"]), args.timeout)
        run = record_of(client, entry)
    over = budget.over(run, args, job.label)
    if over:
        print(f"Over budget: {' '.join(over)}", file=sys.stderr)
    if not args.json:
        show(entry, job.prompt, run)
    found = advice.of(client, entry["prompt_id"]) if args.advice else None
    if found is not None and not args.json:
        print(f"\n{advice.text(found)}", flush=True)
    error = str(PromptFailed(entry)) if failed(entry) else None
    return {**result_of(job, entry, run or {}, over, error),
            **({"advice": found} if found is not None else {})}


def record_of(client: Client, entry: Json) -> Json | None:
    """The server's record of a run; None where there is no Headroom."""
    status, run = client.get(f"/headroom/runs/{entry['prompt_id']}")
    return run if status == 200 else None


def rerun_of(client: Client, first: Json, prompt_id: str, timeout: float) -> Json:
    """Wait for the rerun of a prompt; return its entry, with the files of both."""
    print(f"It ran out of memory; its rerun is {prompt_id}.", file=sys.stderr)
    entry = client.wait(prompt_id, timeout)
    outputs = {**first.get("outputs", {}), **entry.get("outputs", {})}
    return {**entry, "prompt_id": prompt_id, "outputs": outputs}


def result_of(job: Job, entry: Json, run: Json, over: list[str], error: str | None) -> Json:
    """What --json prints of one run."""
    figures = {name: run.get(name) for name in ("seconds", "peak_vram_mib", "peak_rss_mib")}
    return {
        "file": str(job.file), "seed": job.seed, "prompt_id": entry.get("prompt_id"), **figures,
        "saved": saved_files(entry), "over_budget": over, "error": error,
    }


def titles_of(prompt: Json) -> dict[str, str]:
    return {
        key: node.get("_meta", {}).get("title") or node["class_type"]
        for key, node in prompt.items()
    }


# -- running ----------------------------------------------------------------------------------


def follow(
    client: Client, prompt: Json, timeout: float, bar: ProgressBar | None = None
) -> Json:
    """Queue the prompt, draw its progress, and return its history entry with its `prompt_id`.

    Unfinished, a TimeoutError, when it has not finished after `timeout` seconds.
    """
    bar = bar or ProgressBar(titles_of(prompt))
    try:
        with client.events() as stream:
            prompt_id = client.queue(prompt, client_id=stream.client_id)
            for event in stream.until_finished(prompt_id, timeout):
                bar.handle(event)
    except (ImportError, NoEvents):  # the record of the run is on HTTP as well
        prompt_id = client.queue(prompt)
        _poll(client, prompt_id, bar, timeout)
    entry = client.wait(prompt_id)  # it has finished
    entry["prompt_id"] = prompt_id
    return entry


def _poll(client: Client, prompt_id: str, bar: ProgressBar, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while (entry := client.history(prompt_id)) is None:
        if time.monotonic() >= deadline:
            raise Unfinished(prompt_id, timeout)
        status, run = client.get(f"/headroom/runs/{prompt_id}")
        for node in run["nodes"] if status == 200 else ():
            if not node["cached"]:
                bar.handle({"type": "executing", "data": {"node": node["node_id"]}})
        time.sleep(POLL_SECONDS)
    if not failure_of(entry):
        bar.handle({"type": "execution_success"})


# -- showing ----------------------------------------------------------------------------------


def show(entry: Json, prompt: Json, run: Json | None) -> None:
    """Print reports, files and the memory table, and the error's text when the run failed."""
    show_texts(entry, prompt)
    for name in saved_files(entry):
        print(f"Saved: {name}")
    if run is not None:
        print(f"\n{run_table(run, titles_of(prompt))}", flush=True)
    else:
        print("\nNo memory table: Headroom is not installed on this server.", flush=True)
    if failed(entry):
        print(f"Error: {PromptFailed(entry)}", file=sys.stderr)


def show_texts(entry: Json, prompt: Json) -> None:
    """Print what the nodes say of themselves."""
    titles = titles_of(prompt)
    for node_id, text in node_texts(entry).items():
        print(f"\n{titles.get(node_id, node_id)} ({node_id}):\n{text}")


def saved_files(entry: Json) -> list[str]:
    """The files that the run left in the server's output folder."""
    return [
        f"{item.get('subfolder')}/{item['filename']}".lstrip("/")
        for output in entry.get("outputs", {}).values()
        for kind in ("images", "gifs", "audio", "video")
        for item in output.get(kind) or ()
        if isinstance(item, dict) and item.get("type") == "output"
    ]

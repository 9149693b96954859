"""`python -m farm serve --servers …` and `python -m farm run PROMPTS --servers …`."""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import prompts
from .client import Batch, Farm
from .comfy import Unknown, Unreachable
from .progress import Counts, Progress
from .servers import read_servers
from .verdict import Limits
from .words import FarmError
from .worker import Patience

if TYPE_CHECKING:
    from .settings import Settings

RAY = ("serve on this Ray cluster (auto, or its address), or on a Ray that is started here "
       "(local); default: only where servers that are started want GPUs")
FAILED, WRONG, STOPPED = 1, 2, 130


def main(words: Sequence[str] | None = None) -> int:
    """Run a farm; 0 when every prompt is finished, 1 when one failed, 2 for a wrong request."""
    args = parser().parse_args(words)
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return serve(args) if args.command == "serve" else run(args)
    except FarmError as error:
        print(f"Error: {error}", file=sys.stderr)
        return WRONG
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        print(f"Error: {what}{error.strerror or error}; the same command goes on from here.",
              file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print("Stopped; the same command goes on where this one ended.", file=sys.stderr)
        return STOPPED


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m farm", description="One queue, many ComfyUIs.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run_parser = commands.add_parser("run", help="run prompts on servers until all are finished")
    add = run_parser.add_argument
    add("prompts", nargs="+", metavar="PROMPTS",
        help=".json, .jsonl, a folder of these, a .py with a generator `prompts`, or - for stdin")
    _add_servers(run_parser, 1).add_argument("--farm", default="", metavar="URL",
        help="the address of a farm that `serve` has opened, in place of --servers")
    serve_parser = commands.add_parser("serve", help="be one ComfyUI in front of many")
    add = serve_parser.add_argument
    add("--host", default="127.0.0.1", help="who may connect; default: this machine only")
    add("--port", type=_port, default=8288, metavar="N",
        help="0: one that is free; default: %(default)s")
    add("--upload-mib", type=_count, default=100, metavar="N",
        help="largest body of a request; default: %(default)s")
    _add_servers(serve_parser, 0)  # who looks on wants to see an error at once
    return top


def _add_servers(sub: argparse.ArgumentParser, retries: int) -> "argparse._MutuallyExclusiveGroup":
    add, where = sub.add_argument, sub.add_mutually_exclusive_group(required=True)
    where.add_argument("--servers", nargs="+", metavar="URL_OR_FILE",
        help="URLs of running servers, and JSON files that say how to start others")
    add("--ray", default="", metavar="ADDRESS", help=RAY)
    add("--token", default=os.environ.get("FARM_TOKEN", ""), metavar="TEXT",
        help="what every request must show; default: the variable FARM_TOKEN, else none")
    add("--results", type=Path, default=Path("farm-results"), metavar="FOLDER",
        help="where results and what is done are kept; default: %(default)s")
    add("--after-oom", choices=("rescue", "move"), default="rescue",
        help="out of memory: the server tries again guarded (default), or a larger one gets it")
    add("--guess", action="store_true",
        help="ask a server first how much memory a prompt of a new kind may need")
    add("--prompt-seconds", type=_seconds, default=3600.0, metavar="N",
        help="longest run of a prompt; default: %(default)g")
    add("--silent-seconds", type=_seconds, default=120.0, metavar="N",
        help="a server that answers nothing for so long is hung; default: %(default)g")
    add("--start-seconds", type=_seconds, default=300.0, metavar="N",
        help="longest start of a server; default: %(default)g")
    add("--retries", type=_count, default=retries, metavar="N",
        help="further tries of a prompt after an error of its own; default: %(default)s")
    add("--losses", type=_count, default=3, metavar="N",
        help="how often a prompt may go down with its server and be tried again; "
             "default: %(default)s")
    return where


def serve(args: argparse.Namespace) -> int:
    """Open a door until it is stopped."""
    from .serve import serve as open_door

    open_door(settings_of(args, args.token, args.upload_mib << 20), args.host, args.port)
    return 0


def settings_of(args: argparse.Namespace, token: str = "", most_bytes: int = 1 << 30) -> "Settings":
    """Return what a door is to be made of; FarmError for servers that nobody understands."""
    from .settings import Settings  # wants Starlette, which a client does not

    patience = Patience(args.start_seconds, args.silent_seconds, args.prompt_seconds)
    return Settings(read_servers(args.servers), patience, args.results.absolute(), args.after_oom,
                token, most_bytes, Limits(args.retries, args.losses), args.guess,
                args.ray)


def run(args: argparse.Namespace) -> int:
    """Check everything that can be checked, then run on a farm that is open, or on one's own."""
    if args.farm:
        total = prompts.count(args.prompts)
        return batch(args, args.farm.rstrip("/"), args.token, Progress(total))
    from .serve import opened

    settings = settings_of(args)
    total = prompts.count(args.prompts)
    with opened(settings) as (url, token):
        return batch(args, url, token, Progress(total), is_own=True)


def batch(
    args: argparse.Namespace, url: str, token: str, progress: Progress, is_own: bool = False
) -> int:
    results, began = args.results.absolute(), time.monotonic()
    results.mkdir(parents=True, exist_ok=True)

    async def through() -> Counts:
        farm = Farm(url, args.silent_seconds, token=token)
        try:
            found = Batch(farm, results, progress, is_own)
            await found.run(prompts.read_all(args.prompts))
        finally:
            await farm.close()
        return found.counts

    try:
        counts = asyncio.run(through())
    except (Unknown, Unreachable) as error:
        raise FarmError(f"The farm cannot be asked: {error}; the same command goes on.") from error
    finally:
        progress.close()
    print(summary(counts, time.monotonic() - began, results))
    return FAILED if counts.failed else 0


def summary(counts: Counts, seconds: float, results: Path) -> str:
    prompts = "prompt" if counts.finished == 1 else "prompts"
    parts = [f"{counts.finished} {prompts} finished in {seconds:,.0f} s"]
    further = {
        "were finished before": counts.finished_before, "rescued by their server": counts.rescued,
        "moved to a larger GPU": counts.moved, "servers lost": counts.lost,
        "failed": counts.failed,
    }
    parts += [f"{count} {words}" for words, count in further.items() if count]
    return f"{', '.join(parts)}; results in {results}"


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 1e7:
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0, but got {word[:40]!r}")
    return seconds


def _port(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) <= 5 and int(word) <= 65535):
        raise argparse.ArgumentTypeError(f"expected a port, up to 65535, but got {word[:40]!r}")
    return int(word)


def _count(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) <= 6):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 up, got {word[:40]!r}")
    return int(word)

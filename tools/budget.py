"""What a run may need: for CI, where a workflow that grew must be noticed."""

import argparse
from typing import Any

from .client import Client, PromptInvalid
from .errors import DevError
from .graph import forget_everything

EXIT_CODE = 3  # 1 is a failed run, 2 a wrong command line
NO_HEADROOM = "The server has no Headroom, so it tells nobody what a run needs."
NOTHING_TOLD = ("The server does not tell its {what}, so a budget cannot be checked; leave it out "
                "there.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how much."""
    for what in ("vram", "ram"):
        parser.add_argument(
            f"--max-{what}-mib", type=_positive, metavar="N",
            help=f"exit with {EXIT_CODE} when a run needs more {what.upper()}",
        )


def is_set(args: argparse.Namespace) -> bool:
    """Whether a run may need only so much."""
    return args.max_vram_mib is not None or args.max_ram_mib is not None


def begin_anew(client: Client) -> None:
    """Drop models and results of earlier runs, which the next run does not need.

    A run that takes results from a cache would not show what it needs, either.
    """
    try:
        forget_everything(client)
    except PromptInvalid as error:
        raise DevError(NO_HEADROOM) from error


def over(run: dict[str, Any] | None, args: argparse.Namespace, label: str) -> list[str]:
    """A sentence for each budget that the run exceeded.

    `run` is the server's record. DevError where there is a budget and nobody can tell the need.
    """
    limits = (
        ("VRAM", args.max_vram_mib, "peak_vram_mib"), ("RAM", args.max_ram_mib, "peak_rss_mib"),
    )
    return [
        f"{label} needed {needed:,.1f} MiB of {what}, {limit:,} are allowed."
        for what, limit, figure in limits
        if limit is not None and (needed := _told(run, figure, what)) > limit
    ]


def _told(run: dict[str, Any] | None, figure: str, what: str) -> float:
    needed = run.get(figure) if run is not None else None
    if needed is None:
        raise DevError(NO_HEADROOM if run is None else NOTHING_TOLD.format(what=what))
    return float(needed)


def _positive(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and 0 < int(word[:12]) and len(word) <= 12):
        raise argparse.ArgumentTypeError(
            f"a budget is a whole number of MiB, 1 or more, not {word[:40]!r}"
        )
    return int(word)

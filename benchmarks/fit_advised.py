"""What all advice saves three of ComfyUI's templates on a card of 24 GiB, by `dev.py fit --guard`.

    python benchmarks/fit_advised.py --comfyui PATH

It writes the README's table. Figures are peaks of dry runs in MiB, with the CUDA context.
"""

import argparse
from pathlib import Path

import on_path  # noqa: F401
from fit_template import answer_for

from tools.advised import TEMPLATES
from tools.bench_run import alone
from tools.errors import NotHere
from tools.fit_run import ADVISED, PLAIN
from tools.lab import fake_cuda
from tools.results import FAKE

NAME = "fit_advised"
DEVICE = FAKE
CARD_GIB = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has no settings of its own."""


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return the peaks of each template by the way that it ran, and what was advised."""
    if reason := fake_cuda().why_not():
        raise NotHere(reason)
    found: dict[str, object] = {"card_gib": CARD_GIB}
    for name in TEMPLATES:
        told = answer_for(Path(args.comfyui), name, "--guard", "--cards", str(CARD_GIB))
        trials = {trial["way"]: trial for trial in told["trials"]}
        found |= {"context_mib": told["context_mib"], name: {
            "as_it_is_mib": trials[PLAIN]["peak_mib"],
            "advised_mib": trials[ADVISED]["peak_mib"], "advice": trials[ADVISED]["applied"]}}
    return found


if __name__ == "__main__":
    alone()

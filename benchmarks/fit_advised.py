"""What all advice saves three of ComfyUI's templates on a card of 24 GiB, by `dev.py fit --guard`.

    python benchmarks/fit_advised.py --comfyui PATH

It writes the README's table. Figures are peaks of dry runs in MiB, with the CUDA context.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from on_path import ROOT

from tools.advised import TEMPLATES
from tools.bench_run import alone
from tools.comfyui import VARIABLE
from tools.errors import DevError, NotHere
from tools.fake_cuda import fake_cuda
from tools.fit_run import ADVISED, PLAIN
from tools.results import FAKE
from tools.template_package import templates_of

NAME = "fit_advised"
DEVICE = FAKE
CARD_GIB = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comfyui", default=os.environ.get(VARIABLE))


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return the peaks of each template by the way that it ran, and what was advised."""
    if reason := fake_cuda().why_not():
        raise NotHere(reason)
    templates = templates_of(Path(args.comfyui), None)
    found: dict[str, object] = {"card_gib": CARD_GIB}
    with tempfile.TemporaryDirectory(prefix="headroom-advised-") as base:
        for name in TEMPLATES:
            file = Path(base) / f"{name}.json"
            file.write_text(json.dumps(templates[name]), encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-m", "tools.fit", str(file), "--json", "--guard",
                 "--cards", str(CARD_GIB)],
                cwd=ROOT, capture_output=True, text=True,
                env={**os.environ, VARIABLE: str(args.comfyui)})
            if done.returncode:
                raise DevError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
            told = json.loads(done.stdout)
            trials = {trial["way"]: trial for trial in told["trials"]}
            found |= {"context_mib": told["context_mib"], name: {
                "as_it_is_mib": trials[PLAIN]["peak_mib"],
                "advised_mib": trials[ADVISED]["peak_mib"], "advice": trials[ADVISED]["applied"]}}
    return found


if __name__ == "__main__":
    alone()

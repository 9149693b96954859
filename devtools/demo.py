"""`python dev.py demo`: a real ComfyUI with this pack, one prompt, and what the nodes freed.

The first half runs in whatever Python started it and prepares everything; the second half,
`python -m devtools.demo_run`, runs inside the environment.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .comfyui import locate_comfyui
from .environment import ensure_environment, warn_of_missing_packages
from .processes import run_in_foreground

ROOT = Path(__file__).resolve().parent.parent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comfyui", type=Path, metavar="PATH", help="an existing ComfyUI folder")
    parser.add_argument("--port", type=port_number, default=0, help="default: any free one")
    parser.add_argument("--open", action="store_true", help="keep the server up afterwards")
    parser.add_argument("--cpu", action="store_true", help="use no GPU, not even a simulated one")


def port_number(word: str) -> int:
    if not word.isdigit() or not 1 <= int(word) <= 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {word!r}")
    return int(word)


def main(args: argparse.Namespace) -> int:
    environment = ensure_environment()
    tree = locate_comfyui(args.comfyui, python=environment.python)
    warn_of_missing_packages(environment, tree)
    words = [str(environment.python), "-m", "devtools.demo_run", str(tree)]
    words += ["--port", str(args.port)]
    words += [f"--{name}" for name in ("open", "cpu") if getattr(args, name)]
    return run_in_foreground(words, cwd=ROOT)


if __name__ == "__main__":
    sys.exit("Run `python dev.py demo`.")

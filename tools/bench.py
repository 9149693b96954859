"""`python dev.py bench`: measure the README's figures, record them, write the tables."""

import argparse
import os
from pathlib import Path

from . import bench_tables
from .comfyui import VARIABLE, locate_comfyui
from .environment import python_for
from .processes import run_in_foreground

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks"


def names() -> list[str]:
    """The benchmarks: every module in `benchmarks/` that has a NAME."""
    found = (path for path in sorted(FOLDER.glob("*.py")))
    return [path.stem for path in found if "\nNAME = " in path.read_text(encoding="utf-8")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpu", action="store_true", help="on this machine's GPU, not a simulated")
    parser.add_argument("--fake-cuda", action="store_true",
                        help="PyTorch's own CUDA allocator on the fake driver, without a GPU")
    parser.add_argument("--rehearse", action="store_true",
                        help="rehearse --gpu on a simulated GPU, in small; record nothing")
    parser.add_argument("--only", nargs="+", action="extend", choices=names(), metavar="NAME",
                        help=f"of {', '.join(names())}")
    parser.add_argument("--comfyui", metavar="PATH", help="a ComfyUI tree; default: 0.3.75")
    parser.add_argument("--python", metavar="PATH",
                        help="a Python that this ComfyUI runs with; default: our environment's")
    parser.add_argument("--readme", action="store_true",
                        help="measure nothing, only write the tables from the recorded results")


def main(args: argparse.Namespace) -> int:
    code = 0
    if not args.readme:
        python = python_for(args.python)
        tree = locate_comfyui(args.comfyui, python=python)
        switches = ("gpu", "fake_cuda", "rehearse")
        words = [f"--{name.replace('_', '-')}" for name in switches if getattr(args, name)]
        command = [python, "-m", "tools.bench_run", *words, *(args.only or names())]
        code = run_in_foreground(command, cwd=ROOT, env={**os.environ, VARIABLE: str(tree)})
    for path in bench_tables.publish():
        print(f"Wrote {path}", flush=True)
    return code

"""`python dev.py test`: every check and test that can run on this machine."""

import argparse
import os
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from .comfyui import VARIABLE, locate_comfyui
from .environment import Environment, ensure_environment, warn_of_other_packages
from .javascript import javascript
from .processes import run_in_foreground

ROOT = Path(__file__).resolve().parent.parent
MOST_PROCESSES = 4  # each with its servers takes up to 4 GiB of RAM
CHECKS = {
    "ruff": ("-m", "ruff", "check", "."),
    "mypy": ("-m", "mypy"),
    "mypy of the tools": ("-m", "mypy", "--config-file", "devtools/mypy.ini"),
    # Its contracts, the floors of headroom/, are in pyproject.toml. (It has no `-m`.)
    "import-linter": ("-c", "from importlinter.cli import lint_imports_command as lint; lint()"),
}
PASS_THROUGH = True  # everything after `test` belongs to pytest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Any arguments go to pytest, which then runs alone; without arguments ruff, mypy, "
        "import-linter and the checks of the JavaScript run first. HEADROOM_DEV_HOME moves the "
        "cache, COMFYUI_PATH names the ComfyUI to test in."
    )
    parser.add_argument("rest", nargs="*", metavar="PYTEST_ARGUMENT")


def main(args: argparse.Namespace) -> int:
    environment = ensure_environment()
    tree = locate_comfyui(python=environment.python)
    warn_of_other_packages(environment, tree)
    print(f"Environment {environment.folder}\nComfyUI {tree}", flush=True)
    failed = [] if args.rest else [name for name in CHECKS if not _check(environment, name)]
    if not args.rest:
        failed += javascript(partial(_stage, only_failures=True))
    if failed:
        print(f"FAILED before pytest: {', '.join(failed)}", flush=True)
    code = _pytest(environment, tree, args.rest)  # last, so that its closing line is the last
    return code or int(bool(failed))


def _check(environment: Environment, name: str) -> bool:
    return _stage(name, [environment.python, *CHECKS[name]], only_failures=True)


def _stage(name: str, command: Sequence[str | Path], only_failures: bool = False) -> bool:
    """Run one check and print its verdict; `only_failures` keeps a passing one's output back."""
    start = time.monotonic()
    words = [str(word) for word in command]
    pipe = subprocess.PIPE if only_failures else None
    done = subprocess.run(words, cwd=ROOT, stdout=pipe, encoding="utf-8")
    code = done.returncode
    if code and done.stdout:
        print(done.stdout)
    verdict = "passed" if code == 0 else f"FAILED with exit code {code}"
    print(f"{name}: {verdict} in {time.monotonic() - start:.1f} s", flush=True)
    return code == 0


def processes() -> int:
    """How many test processes fit: two more than cores, since each waits for its servers."""
    return min(MOST_PROCESSES, (os.cpu_count() or 1) + 2)


def _pytest(environment: Environment, tree: Path, words: Sequence[str]) -> int:
    """Run pytest with `words`; without any, everything, in as many processes as fit."""
    words = words or ["-n", str(processes()), "--dist", "loadfile", "--no-loadscope-reorder"]
    command: list[str | Path] = [environment.python, "-m", "pytest", *words]
    return run_in_foreground(command, cwd=ROOT, env={**os.environ, VARIABLE: str(tree)})

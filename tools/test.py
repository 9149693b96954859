"""`python dev.py test`: every check and test that can run on this machine.

`--python 3.12` runs the unit tests and a smoke test on another Python, which has an environment of
its own. `--worlds` is what CI does: everything on the Python that ComfyUI's portable build has, and
beside it the same on the oldest one that is supported.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .cache import cache_home
from .comfyui import NEWEST_VARIABLE, VARIABLE, locate_comfyui, newest_tree, version_of_tree
from .environment import ensure_environment, warn_of_other_packages
from .javascript import javascript
from .processes import run_in_foreground
from .pythons import OLDEST, USUAL, find_python, given_python, version_of

ROOT = Path(__file__).resolve().parent.parent
MOST_PROCESSES = 4  # each with its servers takes up to 4 GiB of RAM
CHECKS = {
    "ruff": ("-m", "ruff", "check", "."),
    # What they found out about files that did not change is kept for the next checkout.
    "mypy": ("-m", "mypy", "--cache-dir", str(cache_home() / "mypy")),
    "mypy of the tools": ("-m", "mypy", "--config-file", "tools/mypy.ini",
                          "--cache-dir", str(cache_home() / "mypy-tools")),
    # Its contracts, the floors of headroom/, are in pyproject.toml. (It has no `-m`.)
    "import-linter": ("-c", "from importlinter.cli import lint_imports_command as lint; lint()"),
}
# Processes: two more than cores, since each waits for its servers, but not too many for the RAM.
IN_PARALLEL = ("-n", str(min(MOST_PROCESSES, (os.cpu_count() or 1) + 2)), "--dist", "loadfile",
               "--no-loadscope-reorder")
# On another Python: not what PyTorch makes out with the fake driver, which is C++, or with models
# of other libraries, and not what Ray does with processes.
OF_LIBRARIES = ("cast/test_cast_architectures", "cast/test_cast_pipeline", "models/test_unload",
                "models/test_unload_diffsynth")
SHORT = (*IN_PARALLEL, "-q", "-m", "not fakecuda and not ray",
         *(f"--ignore=tests/unit/{name}.py" for name in OF_LIBRARIES),
         "tests/unit", "tests/worlds/test_smoke.py")
PASS_THROUGH = True  # everything after `test` belongs to pytest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Any other arguments go to pytest, which then runs alone; without arguments ruff, mypy, "
        "import-linter and the checks of the JavaScript run beside it. HEADROOM_DEV_HOME moves the "
        f"cache, COMFYUI_PATH names the ComfyUI to test in, {NEWEST_VARIABLE} one with dynamic "
        "VRAM."
    )
    parser.add_argument("--python", help="test on this Python (3.12, or a path): unit tests and a "
                        "real server in which every node runs, or what PYTEST_ARGUMENTs say")
    parser.add_argument("--checks", action="store_true", help="run only what is not pytest's")
    parser.add_argument("--worlds", action="store_true", help=f"run everything on Python {USUAL} "
                        f"beside the unit tests and such a server on Python {OLDEST}, as CI does")
    parser.add_argument("rest", nargs="*", metavar="PYTEST_ARGUMENT")


def main(args: argparse.Namespace) -> int:
    words = list(args.rest)
    if words[:1] == ["--python"] and len(words) > 1:
        return _test(given_python(words[1]), words[2:] or SHORT)
    if words == ["--checks"]:
        return len(_failing_checks(ensure_environment(None)))
    if words != ["--worlds"]:
        return _test(None, words)
    oldest, usual = find_python(OLDEST), find_python(USUAL)
    if oldest is None:
        print(f"Python {OLDEST}: skipped, there is none here", flush=True)
        return _test(usual, ())
    # Beside the others, in one process: those wait for their servers a fifth of the time.
    beside = [sys.executable, str(ROOT / "dev.py"), "test", "--python", str(oldest), *SHORT,
              "-n", "1"]
    with ThreadPoolExecutor(1) as pool:
        passed = pool.submit(_stage, f"tests on Python {OLDEST}", beside)
        return _test(usual, ()) or int(not passed.result())


def _test(wanted: Path | None, words: Sequence[str]) -> int:
    """Run pytest with `words` in the environment of a Python; without any, all checks and tests."""
    python = ensure_environment(wanted)
    trees = {VARIABLE: locate_comfyui(python=python)}
    if newest := newest_tree():
        trees[NEWEST_VARIABLE] = newest
    else:
        print("No ComfyUI with dynamic VRAM is here: tests that need one are skipped", flush=True)
    home = cache_home()
    for tree in trees.values():
        place = tree.relative_to(home) if tree.is_relative_to(home) else tree
        print(f"ComfyUI {version_of_tree(tree)} in {place}", flush=True)
        warn_of_other_packages(python, tree)
    folder = python.parents[1].name
    print(f"Python {version_of(python)} in {folder}, all in {home}", flush=True)
    command: list[str | Path] = [python, "-m", "pytest", *(words or IN_PARALLEL)]
    # A second thread saves no time where all cores are busy, and takes a fifth more CPU time.
    env = {"OMP_NUM_THREADS": "1", **os.environ}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # each server would compile all of ComfyUI anew
    env.update((name, str(tree)) for name, tree in trees.items())
    with ThreadPoolExecutor(1) as pool:  # the tests wait for their servers a fifth of the time
        checks = pool.map(_failing_checks, [] if words else [python])
        code = run_in_foreground(command, cwd=ROOT, env=env)
        failed = sum(checks, [])
    if failed:  # else pytest's closing line is the last
        print(f"FAILED beside pytest: {', '.join(failed)}", flush=True)
    return code or int(bool(failed))


def _failing_checks(python: Path) -> list[str]:
    """Run what is not pytest's, two at a time; return what failed."""
    with ThreadPoolExecutor(2) as pool:
        of_page = pool.submit(javascript, _stage)
        commands = {name: [python, *words] for name, words in CHECKS.items()}
        passed = dict(zip(commands, pool.map(_stage, commands, commands.values()), strict=True))
        failed_of_page = of_page.result()
    return [name for name, is_good in passed.items() if not is_good] + failed_of_page


def _stage(name: str, command: Sequence[str | Path]) -> bool:
    """Run one check and print its verdict; its output only where it fails."""
    start = time.monotonic()
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8")
    code = done.returncode
    verdict = "passed" if code == 0 else f"FAILED with exit code {code}"
    output = f"{done.stdout}\n" if code else ""
    print(f"{output}{name}: {verdict} in {time.monotonic() - start:.1f} s", flush=True)
    return code == 0

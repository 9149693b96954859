"""The checks of the JavaScript: tsc with the frontend's published types, ESLint, and its tests.

What they need is installed by npm into the per-user cache, never into the repository.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from .cache import cache_home, process_lock

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "js"
FOLDER = ROOT / "tools" / "js"  # what npm installs, and how the two checks are set up
OLDEST_NODE = 18  # the first release with the test runner
INSTALLING = "npm ci for tsc and ESLint"
DONE = "installed"  # an empty file beside the packages, once all are there

Stage = Callable[[str, Sequence[str | Path]], bool]  # (name, command): whether it passed


def javascript(stage: Stage) -> list[str]:
    """Run every check that can run on this machine; return the names of those that failed."""
    node = shutil.which("node")
    if node is None or node_version(node) < OLDEST_NODE:
        print(f"JavaScript: skipped, it needs Node.js {OLDEST_NODE} or newer", flush=True)
        return []
    npm = shutil.which("npm")
    if npm is None:
        print("tsc and ESLint: skipped, they need npm", flush=True)
    failed = [] if npm is None else _checks(node, npm, stage)
    tests: list[str | Path] = [node, "--test", *sorted(TESTS.glob("**/*.test.mjs"))]
    return failed if stage("JavaScript tests", tests) else [*failed, "JavaScript tests"]


def _checks(node: str, npm: str, stage: Stage) -> list[str]:
    """Run tsc and ESLint, installed first where they are not yet; the names of what failed."""
    lock = (FOLDER / "package-lock.json").read_bytes()
    folder = cache_home() / f"javascript-{hashlib.sha256(lock).hexdigest()[:12]}"
    with process_lock(folder.with_suffix(".lock")):
        if not (folder / DONE).exists() and not _install(npm, folder, stage):
            return [INSTALLING]
    packages = folder / "node_modules"
    tsc, eslint = packages / "typescript/bin/tsc", packages / "eslint/bin/eslint.js"
    config = FOLDER / "eslint.config.cjs"
    commands: dict[str, list[str | Path]] = {
        "tsc": [node, tsc, "--typeRoots", packages, "-p", FOLDER / "tsconfig.json"],
        "ESLint": [node, eslint, "--max-warnings", "0", "--config", config, "js", "tests/js"],
    }
    return [name for name, command in commands.items() if not stage(name, command)]


def _install(npm: str, folder: Path, stage: Stage) -> bool:
    """Install what the lock file names; no package runs a script of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(FOLDER / name, folder)
    command: list[str | Path] = [npm, "ci", "--prefix", folder, "--ignore-scripts"]
    if not stage(INSTALLING, [*command, "--no-audit", "--no-fund"]):
        return False
    (folder / DONE).touch()
    return True


def node_version(node: str) -> int:
    """Give the major version that a Node.js executable names, 0 when it names none."""
    answer = subprocess.run([node, "--version"], capture_output=True, text=True)
    major = re.match(r"v(\d+)", answer.stdout)
    return int(major.group(1)) if major else 0

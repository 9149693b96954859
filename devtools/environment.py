"""The pinned virtual environment in the per-user cache.

Its folder is named after a hash of everything that decides what is in it, so that a second clone
with the same pins starts at once and changed pins get an environment of their own.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .cache import cache_home, process_lock
from .comfyui import WHEEL, floor_tree, required_packages
from .commands import as_dev_error, run_logged
from .errors import DevError

HERE = Path(__file__).resolve().parent
CONSTRAINTS = HERE / "constraints.txt"
REQUIREMENTS = HERE / "requirements.txt"
PACK_REQUIREMENTS = HERE.parent / "requirements.txt"
COMPLETE = "headroom-complete.json"
NEEDED_GIB = {"linux": 10}  # the CUDA libraries of PyTorch, unpacked and while downloading
NEEDED_GIB_ELSEWHERE = 4
ESSENTIALS = ("torch", "torchvision", "torchaudio")


@dataclass(frozen=True)
class Environment:
    """A ready environment: its interpreter, its folder, and the cache that holds it."""

    python: Path
    folder: Path
    home: Path


def environment_key(texts: Sequence[str], version: tuple[int, int], system: str) -> str:
    """A short name for what these requirement texts give on this Python and system."""
    parts = [*texts, f"{version[0]}.{version[1]}", system]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def environment_folder() -> Path:
    """Where the environment for this Python and these pins is or will be."""
    files = (CONSTRAINTS, REQUIREMENTS, PACK_REQUIREMENTS)
    texts = [_without_comments(path.read_text(encoding="utf-8")) for path in files] + [WHEEL]
    system = f"{sys.platform}-{platform.machine()}"
    return cache_home() / f"env-{environment_key(texts, sys.version_info[:2], system)}"


def _without_comments(text: str) -> str:
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ensure_environment() -> Environment:
    """The environment, made or finished first where needed; DevError when it cannot be."""
    folder = environment_folder()
    environment = Environment(interpreter(folder), folder, cache_home())
    if not (folder / COMPLETE).exists():
        try:
            with process_lock(cache_home() / "locks" / f"{folder.name}.lock"):
                if not (folder / COMPLETE).exists():
                    _build(folder)
        except OSError as error:
            raise as_dev_error(error, "making of the environment") from error
    return environment


def _build(folder: Path) -> None:
    """Make or finish the environment; each finished stage is quick the next time."""
    python = interpreter(folder)
    if not python.exists():
        _check_space(folder)
    print(f"Making the Python environment {folder} (once; several minutes)", flush=True)
    if not _has_pip(python):
        shutil.rmtree(folder, ignore_errors=True)
        run_logged([sys.executable, "-m", "venv", folder], "making of the environment")
    _pip(python, "pip", ["--upgrade", "pip", "packaging"])
    tree = floor_tree(python)
    print("Installing PyTorch", flush=True)
    _install_one_by_one(python, "PyTorch", ESSENTIALS)
    print("Installing ComfyUI's requirements and the development tools", flush=True)
    files = (tree / "requirements.txt", PACK_REQUIREMENTS, REQUIREMENTS)
    _pip(python, "ComfyUI's requirements", [w for file in files for w in ("-r", str(file))])
    marker = {"python": sys.version, "comfyui": WHEEL}
    (folder / COMPLETE).write_text(json.dumps(marker), encoding="utf-8")


def _check_space(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    needed = NEEDED_GIB.get(sys.platform, NEEDED_GIB_ELSEWHERE)
    free = shutil.disk_usage(folder.parent).free / 2**30
    if free < needed:
        raise DevError(
            f"The environment needs about {needed} GiB of disk and {folder.parent} has "
            f"{free:.1f} GiB free; free some space or set HEADROOM_DEV_HOME to a folder elsewhere."
        )


def _has_pip(python: Path) -> bool:
    """False for an environment whose making was interrupted."""
    if not python.exists():
        return False
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run([python, "-m", "pip", "--version"], **quiet).returncode == 0  # type: ignore[call-overload]


def _install_one_by_one(python: Path, what: str, names: Sequence[str]) -> None:
    """Install packages and all they need one at a time, so that an interruption loses only one.

    These are the gigabytes of the environment, and pip itself keeps nothing of an installation
    that did not come to its end unless the index allows caching.
    """
    script = [str(python), str(HERE / "needs.py"), *names]
    while missing := _lines_of(script):
        for name in missing:
            _pip(python, what, ["--no-deps", name])
    _pip(python, what, names)


def _lines_of(command: Sequence[str]) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def _pip(python: Path, what: str, words: Sequence[str]) -> None:
    """`pip install` under the constraints, with the user's own pip configuration."""
    command: list[str | Path] = [python, "-m", "pip", "install", "--constraint", CONSTRAINTS,
                                 "--retries", "5"]
    if what != "pip":  # the pip that a new environment starts with may not know it
        command += ["--resume-retries", "20"]
    run_logged([*command, *words], f"installation of {what}")


def installed_versions(environment: Environment, names: Iterable[str]) -> dict[str, str]:
    """{package: its version in the environment}; those that are not there are left out."""
    script = (
        "import sys, json, importlib.metadata as m\n"
        "def of(n):\n"
        "    try: return m.version(n)\n"
        "    except m.PackageNotFoundError: return ''\n"
        "print(json.dumps({n: of(n) for n in sys.argv[1:] if of(n)}))"
    )
    command = [str(environment.python), "-c", script, *names]
    found: dict[str, str] = json.loads("".join(_lines_of(command)))
    return found


def warn_of_other_packages(environment: Environment, tree: Path) -> None:
    """Say in one line each which packages of a ComfyUI tree are not the environment's own."""
    wanted = required_packages(tree)
    there = installed_versions(environment, wanted)
    others = [
        f"{name} {there[name]} (not {version})"
        for name, version in wanted.items() if name in there and version not in ("", there[name])
    ]
    missing = [name for name in wanted if name not in there]
    if others:
        print(f"Note: the ComfyUI at {tree} runs here with {', '.join(others)}.", flush=True)
    if missing:
        print(
            f"Note: the ComfyUI at {tree} also asks for {', '.join(missing)}, which the pinned "
            "environment does not have.",
            flush=True,
        )

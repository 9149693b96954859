"""The pinned virtual environments in the per-user cache, one for each Python.

The folder of each is named after a hash of everything that decides what is in it, so that a second
clone with the same pins starts at once and changed pins get an environment of their own.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from .cache import cache_home, process_lock
from .comfyui import WHEEL, floor_tree, required_packages
from .commands import as_dev_error
from .errors import DevError
from .pythons import version_of
from .uv import interpreter, pip_python, run_uv

HERE = Path(__file__).resolve().parent
CONSTRAINTS = HERE / "constraints.txt"
REQUIREMENTS = HERE / "requirements.txt"
PACK_REQUIREMENTS = HERE.parent / "requirements.txt"
IS_CLONE = (HERE.parent / "benchmarks").is_dir()  # else what `pip install` makes of tools/
COMPLETE = "headroom-complete.json"
NEEDED_GIB = {"linux": 10}  # the CUDA libraries of PyTorch, unpacked and while downloading
NEEDED_GIB_ELSEWHERE = 4
ESSENTIALS = ("pip", "setuptools", "torch", "torchvision", "torchaudio")


def environment_key(texts: Sequence[str], version: tuple[int, int], system: str) -> str:
    """A short name for what these requirements install on this Python and system."""
    parts = [*texts, f"{version[0]}.{version[1]}", system]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def environment_folder(version: tuple[int, int]) -> Path:
    """Where the environment for that Python and these pins is or will be."""
    files = (CONSTRAINTS, REQUIREMENTS, PACK_REQUIREMENTS)
    texts = [_without_comments(path.read_text(encoding="utf-8")) for path in files] + [WHEEL]
    system = f"{sys.platform}-{platform.machine()}"
    return cache_home() / f"env-{environment_key(texts, version, system)}"


def _without_comments(text: str) -> str:
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def python_for(given: str | None) -> Path:
    """The Python of `--python`; else our environment's, or this one where there is no clone."""
    if given and not (Path(given).is_file() and os.access(given, os.X_OK)):
        raise DevError(f"--python {given} is no program; give the Python of --comfyui.")
    if given:
        return Path(given).absolute()
    return ensure_environment() if IS_CLONE else Path(sys.executable)


def ensure_environment(python: Path | None = None) -> Path:
    """The interpreter of the environment of `python`, None: of the Python that runs this.

    The environment is made first where it is not there.

    DevError when it cannot be made.
    """
    major, minor = version_of(python).split(".") if python else sys.version_info[:2]
    version = int(major), int(minor)
    folder = environment_folder(version)
    if not (folder / COMPLETE).exists():
        try:
            with process_lock(cache_home() / "locks" / f"{folder.name}.lock"):
                if not (folder / COMPLETE).exists():
                    _build(folder, python or Path(sys.executable), version)
        except OSError as error:
            raise as_dev_error(error, "making of the environment") from error
    return interpreter(folder)


def _build(folder: Path, python: Path, version: tuple[int, int]) -> None:
    """Make or finish the environment; what is downloaded is kept for the next time."""
    name = ".".join(map(str, version))
    if not interpreter(folder).exists():
        _check_space(folder)
    print(f"Making the environment {folder} of Python {name} (once; some minutes)", flush=True)
    if not version_of(interpreter(folder)):
        shutil.rmtree(folder, ignore_errors=True)
        run_uv(["venv", "--python", python, folder], "making of the environment")
    files = (floor_tree(pip_python()) / "requirements.txt", PACK_REQUIREMENTS, REQUIREMENTS)
    words = [word for file in files for word in ("-r", str(file))]
    # Compiled once: a process that imports PyTorch would take 7 s more, each time where
    # PYTHONDONTWRITEBYTECODE is set.
    run_uv(["pip", "install", "--compile-bytecode", "--python", interpreter(folder),
            "--constraint", CONSTRAINTS, *ESSENTIALS, *words],
           "installation of PyTorch and of ComfyUI's requirements")
    marker = {"python": name, "comfyui": WHEEL}
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


def _lines_of(command: Sequence[str]) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def installed_versions(python: Path, names: Iterable[str]) -> dict[str, str]:
    """{package: its version in the environment}; those that are not there are left out."""
    script = (
        "import sys, json, importlib.metadata as m\n"
        "def of(n):\n"
        "    try: return m.version(n)\n"
        "    except m.PackageNotFoundError: return ''\n"
        "print(json.dumps({n: of(n) for n in sys.argv[1:] if of(n)}))"
    )
    command = [str(python), "-c", script, *names]
    found: dict[str, str] = json.loads("".join(_lines_of(command)))
    return found


def warn_of_other_packages(python: Path, tree: Path) -> None:
    """Say in one line each which packages of a ComfyUI tree are not the environment's own."""
    wanted = required_packages(tree)
    there = installed_versions(python, wanted)
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

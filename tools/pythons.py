"""The Pythons of this machine that the tests can run on."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .errors import DevError

OLDEST, USUAL = "3.10", "3.13"  # the oldest supported; the one that ComfyUI's portable build has
ASK = "import sys, venv; print('%d.%d' % sys.version_info[:2])"


def version_of(python: str | Path) -> str:
    """Its version as "3.12"; "" if it does not run; some of pyenv's shims do not."""
    try:
        done = subprocess.run([python, "-c", ASK], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def find_python(wanted: str) -> Path | None:
    """A Python of that version ("3.12"): on the PATH, or one of pyenv's; None without one."""
    return next((path for path in _candidates(wanted) if version_of(path) == wanted), None)


def given_python(wanted: str) -> Path:
    """The Python that a user names by its version or its path; DevError where there is none."""
    found = Path(wanted).absolute() if version_of(wanted) else find_python(wanted)
    if found is None:
        raise DevError(
            f"There is no Python {wanted} on the PATH or among pyenv's; give --python a version "
            "that is there, or the path of an interpreter."
        )
    return found


def _candidates(wanted: str) -> Iterator[Path]:
    yield Path(sys.executable)
    if found := shutil.which(f"python{wanted}"):
        yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(pyenv.glob(f"{wanted}*/bin/python{wanted}"))

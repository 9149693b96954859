"""uv, which fills an environment in seconds, in a small environment of its own.

It links what several environments have in common, so that a second Python costs little.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .cache import HOME_VARIABLE, cache_home, process_lock
from .commands import run_logged

UV = "uv==0.13.9"
# pip's settings, which are the user's own, and what uv calls them.
NAMES = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "cert": "SSL_CERT_FILE",
         "find-links": "UV_FIND_LINKS", "trusted-host": "UV_INSECURE_HOST", "proxy": "ALL_PROXY"}


def interpreter(folder: Path) -> Path:
    """The Python of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip_python() -> Path:
    """A Python with pip and uv, made at the first call."""
    folder = cache_home() / UV.replace("==", "-")
    python = interpreter(folder)
    with process_lock(cache_home() / "locks" / f"{folder.name}.lock"):
        if not (folder / "headroom-complete").exists():
            run_logged([sys.executable, "-m", "venv", "--clear", folder], "installation of uv")
            run_logged([python, "-m", "pip", "install", "--retries", "5", UV], "installation of uv")
            (folder / "headroom-complete").touch()
    return python


def run_uv(words: Sequence[str | Path], doing: str) -> None:
    """Run uv with these words, and with pip's configuration; DevError when it fails."""
    python = pip_python()
    listed = subprocess.run(
        [python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    env = {"UV_HTTP_RETRIES": "10", **settings(listed.stdout.splitlines())}
    if os.environ.get(HOME_VARIABLE):  # perhaps because there is no room in the usual place
        env["UV_CACHE_DIR"] = str(cache_home() / "uv-cache")
    run_logged([python, "-m", "uv", *words], doing, env)


def settings(pip_config: Sequence[str]) -> dict[str, str]:
    """What uv reads, for the lines of `pip config list`; indexes count alike, as for pip."""
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for line in pip_config:
        key, _, value = line.partition("=")
        name = NAMES.get(key.rpartition(".")[2])
        if name:
            words = str(ast.literal_eval(value)).split()
            found[name] = ("," if name == "UV_FIND_LINKS" else " ").join(words)
    return found

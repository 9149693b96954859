"""The commands `headroom-fit` and `headroom-compare`: `dev.py fit` and `compare` without a clone.

`repository` beside this file has what they need of the repository, laid out as it is there.
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent / "repository"


def fit() -> int:
    return _run("fit")


def compare() -> int:
    return _run("compare")


def _run(command: str) -> int:
    sys.path.insert(0, str(REPOSITORY))  # a process of our own: nobody else's `tools` is in it
    sys.argv.insert(1, command)
    import dev

    dev.PROG = "headroom-{name}"
    return int(dev.main(sys.argv[1:]))

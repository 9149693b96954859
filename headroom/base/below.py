"""A name from a prompt as a path that stays below a folder, on every system."""

import os
from types import ModuleType


def name_below(name: str, paths: ModuleType = os.path) -> str:
    """Return `name` as a path below a folder that it cannot leave: no drive, no root, no "..".

    `os.path.relpath` does that too, but raises on Windows for a path on another drive.
    """
    drive, rest = paths.splitdrive(name)
    while drive:
        drive, rest = paths.splitdrive(rest)
    return str(paths.normpath(paths.join(paths.sep, rest))).lstrip(paths.sep)

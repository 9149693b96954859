"""Turn a name from a prompt into a path that stays in a folder, on every system."""

import os
from types import ModuleType


def name_below(name: str, paths: ModuleType = os.path) -> str:
    """Return `name` as a path that cannot leave its folder: no drive, no root, no "..".

    `os.path.relpath` does that too, but raises on Windows for a path on another drive.
    """
    drive, rest = paths.splitdrive(name)
    while drive:
        drive, rest = paths.splitdrive(rest)
    return str(paths.normpath(paths.join(paths.sep, rest))).lstrip(paths.sep)

"""Link a folder instead of copying it, on every system."""

from __future__ import annotations

import os
from pathlib import Path


def link_folder(link: Path, target: Path) -> None:
    """Make `link` lead to the folder `target`: a symbolic link, on Windows a junction.

    An older link is replaced; FileExistsError when a real folder or file is in the way.
    """
    target = target.resolve()
    if is_link(link):
        if Path(os.path.realpath(link)) == target:
            return
        remove_link(link)
    elif link.exists():
        raise FileExistsError(f"{link} is a real folder; move it away so that it can be linked.")
    if os.name == "nt":
        import _winapi

        _winapi.CreateJunction(str(target), str(link))  # type: ignore[attr-defined]
    else:
        link.symlink_to(target, target_is_directory=True)


def is_link(path: Path) -> bool:
    """True for a symbolic link and for a Windows junction."""
    if path.is_symlink():
        return True
    try:
        os.readlink(path)  # Windows: also reads a junction
    except (OSError, ValueError):
        return False
    return True


def remove_link(link: Path) -> None:
    """Remove the link itself, never what it leads to."""
    if os.name == "nt" and not link.is_symlink():
        os.rmdir(link)  # a junction is removed like an empty folder
    else:
        link.unlink()

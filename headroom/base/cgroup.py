"""The memory limit of the container or service that this process runs in (Linux cgroups).

https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files; version 1 has others.
"""

from functools import lru_cache
from os.path import join
from pathlib import Path
from typing import NamedTuple

V2_FILES = ("memory.max", "memory.current")
V1_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes")
SWAP_FILES = ("memory.swap.max", "memory.swap.current")
# Pages of files: the kernel drops them before it kills a process. Version 1 has separate names for
# the sum over the groups below.
DROPPABLE = {V2_FILES: ("inactive_file", "active_file"),
             V1_FILES: ("total_inactive_file", "total_active_file")}
NO_LIMIT = 1 << 60  # without a limit version 1 has a number near 2^63


class GroupMemory(NamedTuple):
    """Bytes that a group may use and does use."""

    limit: int
    used: int


def cgroup_memory(root: Path = Path("/")) -> GroupMemory | None:
    """Return the tightest limit on this process (the least room left); None without a limit."""
    found = [memory for folder, files in _folders(root) if (memory := _read(folder, files))]
    return min(found, key=lambda memory: memory.limit - memory.used, default=None)


def cgroup_room(root: Path) -> int | None:
    """Return the bytes that this process may still take below its limit; None without a limit.

    Used memory includes every file that was read; pages of files that can be dropped count as room.
    """
    found = [
        memory.limit - memory.used + _droppable(folder, DROPPABLE[files])
        for folder, files in _folders(root) if (memory := _read(folder, files))
    ]
    return max(0, min(found)) if found else None


def cgroup_swap_room(root: Path) -> int | None:
    """Return the bytes of swap that this process may still take; None: all that there is.

    Version 1 limits RAM and swap together: there a process with a limit has none.
    """
    found = [0 if files == V1_FILES else memory.limit - memory.used
             for folder, files in _folders(root)
             if (memory := _read(folder, SWAP_FILES if files == V2_FILES else files))]
    return max(0, min(found)) if found else None


def _droppable(folder: str, names: tuple[str, ...]) -> int:
    try:
        words = [line.split() for line in _text(folder, "memory.stat").splitlines()]
        return sum(int(line[1]) for line in words if line and line[0] in names)
    except (OSError, ValueError, IndexError):
        return 0


def _folders(root: Path) -> list[tuple[str, tuple[str, str]]]:
    """Return the folders of this process's groups, and the names of their files."""
    try:
        lines = _text(str(root), "proc/self/cgroup").splitlines()
    except OSError:
        return []
    return _folders_named(root, tuple(lines))


@lru_cache(maxsize=8)
def _folders_named(root: Path, lines: tuple[str, ...]) -> list[tuple[str, tuple[str, str]]]:
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top = join(root, "sys/fs/cgroup")
            folders += [(folder, V2_FILES) for folder in _upwards(top, path)]
        elif "memory" in controllers.split(","):
            top = join(root, "sys/fs/cgroup/memory")
            folders += [(folder, V1_FILES) for folder in _upwards(top, path)]
    return folders


def _upwards(top: str, path: str) -> list[str]:
    """Return the group's folder and those above it; in a container the path may be wrong."""
    names = [name for name in path.split("/") if name]
    return ["/".join([top, *names[:count]]) for count in range(len(names), -1, -1)]


def _read(folder: str, files: tuple[str, str]) -> GroupMemory | None:
    try:
        limit = _text(folder, files[0]).strip()
        if limit == "max" or int(limit) >= NO_LIMIT:
            return None
        return GroupMemory(int(limit), int(_text(folder, files[1])))
    except (OSError, ValueError):
        return None


def _text(folder: str, name: str) -> str:
    """Return a file's text, four times a second: pathlib would take twice as long."""
    with open(join(folder, name), encoding="utf-8") as file:
        return file.read()

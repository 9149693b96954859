"""RAM: what is left of it, and giving this process's unused heap pages back to the system."""

import ctypes
import sys
from pathlib import Path

import psutil

from .cgroup import cgroup_memory, cgroup_room
from .said import said


def ram_room_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of RAM left to this process, by the machine or the tightest cgroup limit."""
    machine, group = int(psutil.virtual_memory().available), cgroup_room(root)
    return machine if group is None else min(machine, group)


def ram_total_bytes(root: Path = Path("/")) -> int:
    """Return the RAM that this process may have at most, of the machine or by a cgroup limit."""
    machine, group = int(psutil.virtual_memory().total), cgroup_memory(root)
    return machine if group is None else min(machine, group.limit)


def swap_bytes() -> tuple[int, int] | tuple[None, None]:
    """Return the bytes of swap (on Windows: page file) in use and in all, by every process.

    None and None where nobody tells: Windows without its counters, a /proc that is not all there.
    """
    try:
        swap = psutil.swap_memory()
    except (OSError, RuntimeError):
        return None, None
    return int(swap.used), int(swap.total)


def ram_pressure(root: Path = Path("/")) -> float | None:
    """Return the percentage of the last 10 s in which a task waited for RAM; None: not told."""
    try:
        some = (root / "proc/pressure/memory").read_text().splitlines()[0]
        return float(some.split("avg10=")[1].split()[0])
    except (OSError, ValueError, IndexError):
        return None


def trim_heap() -> str:
    """Return free heap pages to the system where the C library offers it, and say what was done.

    glibc keeps freed blocks below its mmap threshold; `malloc_trim` is its own call to return
    them. Other systems offer nothing safe, and no other process is ever touched.
    """
    if sys.platform != "linux":
        return said("RAM: this system has no safe call for it; Python's own collection has run")
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return said("RAM: this C library has no malloc_trim; Python's own collection has run")
    trim(0)
    return said("RAM: unused heap pages returned to the system (malloc_trim)")

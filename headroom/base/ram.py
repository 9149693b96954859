"""RAM: how much is left, how much Python uses, and how unused heap pages are returned."""

import ctypes
import os
import re
import shutil
import sys
from pathlib import Path

import psutil

from .cgroup import cgroup_memory, cgroup_room, cgroup_swap_room
from .said import said


def ram_room_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of RAM left to this process, on the machine or by the tightest cgroup limit.
    """
    machine, group = int(psutil.virtual_memory().available), cgroup_room(root)
    return machine if group is None else min(machine, group)


def ram_total_bytes() -> int:
    """Return the most RAM that this process may have: the machine's, or a cgroup limit."""
    machine, group = int(psutil.virtual_memory().total), cgroup_memory()
    return machine if group is None else min(machine, group.limit)


def swap_bytes() -> tuple[int, int] | tuple[None, None]:
    """Return the bytes of swap (on Windows: page file) in use and in all, by every process.

    (None, None) if not known: Windows without its counters, or an incomplete /proc.
    """
    try:
        swap = psutil.swap_memory()
    except (OSError, RuntimeError):
        return None, None
    return int(swap.used), int(swap.total)


def swap_room_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of swap that are left to this process; 0 if not known.

    macOS makes more swap while its disk has room. RAM that zram would take for it is subtracted.
    """
    used, total = swap_bytes()
    free = 0 if used is None or total is None else total - used - _zram_takes_bytes(root)
    if sys.platform == "darwin":
        free += shutil.disk_usage("/").free
    group = cgroup_swap_room(root)
    return free if group is None else min(free, group)


def _zram_takes_bytes(root: Path) -> int:
    """Return the RAM that the free swap of zram would take, compressed like the used swap."""
    try:
        swaps = [line.split() for line in (root / "proc/swaps").read_text().splitlines()[1:]]
        return sum(int(1024 * (int(size) - int(used)) * _zram_share(root, name))
                   for name, _, size, used, *_ in swaps if name.startswith("/dev/zram"))
    except (OSError, ValueError):
        return 0  # not Linux


def _zram_share(root: Path, name: str) -> float:
    try:
        figures = (root / "sys/block" / Path(name).name / "mm_stat").read_text().split()
        return min(1.0, int(figures[2]) / int(figures[0]))  # of RAM for the bytes that it stores
    except (OSError, ValueError, IndexError, ZeroDivisionError):
        return 1.0  # not known, or nothing is in it


def is_ram_disk(folder: Path, root: Path = Path("/")) -> bool:
    """Return whether files in a folder are in RAM themselves (tmpfs); False if not known."""
    try:
        device = os.stat(folder).st_dev
        mounts = (root / "proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"  # proc(5): the third word; the type after "-"
    return any(line.split(" ", 3)[2] == number
               and line.partition(" - ")[2].startswith(("tmpfs ", "ramfs ")) for line in mounts)


def ram_pressure(root: Path = Path("/")) -> float | None:
    """Return in how many percent of the last 10 s a task waited for RAM; None: not known."""
    try:
        some = (root / "proc/pressure/memory").read_text().splitlines()[0]
        return float(some.split("avg10=")[1].split()[0])
    except (OSError, ValueError, IndexError):
        return None


def python_heap_bytes() -> int | None:
    """Return the bytes in which Python stores its objects of up to 512 bytes; None: not known.

    They are from CPython's own statistics, which it writes to a C stream: not on Windows. It costs
    a walk over the heap's pages, a millisecond for each 100 MiB, while every other thread waits.
    """
    tell = getattr(ctypes.pythonapi, "_PyObject_DebugMallocStats", None)
    if tell is None or sys.platform == "win32":
        return None
    libc, text, size = ctypes.CDLL(None), ctypes.c_char_p(), ctypes.c_size_t()
    libc.open_memstream.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    if not stream:
        return None
    tell(stream)
    libc.fclose(stream)
    found = re.search(rb"arenas \* \d+ bytes/arena\s+=\s+([\d,]+)", text.value or b"")
    libc.free(text)
    return None if found is None else int(found[1].replace(b",", b""))


def trim_heap() -> str:
    """Return free heap pages to the system if the C library can do it; return what was done.

    glibc keeps freed blocks below its mmap threshold; `malloc_trim` is its own call to return
    them. Other systems offer nothing safe, and no other process is ever touched.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is None:
        return said("RAM: this system has no safe call for it; Python's own collection has run")
    trim(0)
    return said("RAM: unused heap pages returned to the system (malloc_trim)")

"""Other processes on a card. A process that may be this one is never listed."""

import os
import sys
from functools import lru_cache
from typing import NamedTuple

import psutil
import torch

from .nvml import CardProcess, card_processes
from .snapshot import DeviceMemory, measure_device

# The number of the file /proc/self/ns/pid outside of containers (Linux, include/linux/proc_ns.h).
FIRST_NAMESPACE = 0xEFFFFFFC


class OtherProcess(NamedTuple):
    """A process by name and number; in a container, the number outside of it."""

    name: str
    used_bytes: int


def other_processes(device: torch.device) -> list[OtherProcess]:
    """Return the other processes on the card of `device`, the largest first; empty if not known.

    NVML has the process numbers of the machine. In a container our number is not among them, or
    belongs to another process, so processes that may be this one by their bytes are left out.
    Windows (WDDM) tells no bytes and some containers tell no numbers: such processes are left out.
    """
    found, ours = _processes(device)
    others = [OtherProcess(_name(one.number), one.used_bytes or 0) for one in found
              if one.number and one.used_bytes and one not in ours]
    return sorted(others, key=lambda other: -other.used_bytes)


def own_bytes(device: torch.device) -> int | None:
    """Return this process's bytes on the card, with its context; None if the driver cannot tell."""
    ours = _processes(device)[1]
    return ours[0].used_bytes if len(ours) == 1 else None


def _processes(device: torch.device) -> tuple[list[CardProcess], list[CardProcess]]:
    """Return the processes on the card with known bytes, and those that may be this one."""
    before = measure_device(device)
    found = [one for one in card_processes(device) if one.used_bytes is not None]
    return found, _can_be_us(found, before, measure_device(device)) if before.in_use else []


def _can_be_us(
    found: list[CardProcess], before: DeviceMemory, after: DeviceMemory
) -> list[CardProcess]:
    """Return the processes that may be this one, by memory `before` and `after` the query.

    This process has what torch and dynamic VRAM hold, and a context. Others have at most the rest,
    so a process that has more than the rest is certainly this one.
    """
    if _has_machine_numbers() and (own := [one for one in found if one.number == os.getpid()]):
        return own
    held = min(memory.held_bytes or 0 for memory in (before, after))
    fits = [one for one in found if (one.used_bytes or 0) >= held]
    used = [memory.used_bytes for memory in (before, after)]
    if None in used:
        return fits
    left = max(amount or 0 for amount in used) - held
    return [one for one in fits if (one.used_bytes or 0) > left] or fits


@lru_cache(maxsize=1)
def _has_machine_numbers() -> bool:
    """Return whether process numbers are those of the machine, so that there is no container."""
    if sys.platform != "linux":
        return True
    try:
        return os.stat("/proc/self/ns/pid").st_ino == FIRST_NAMESPACE
    except OSError:
        return False


def _name(number: int) -> str:
    if not _has_machine_numbers():
        return f"PID {number} outside of the container"
    try:
        return f"{psutil.Process(number).name()} ({number})"
    except psutil.Error:
        return f"PID {number}"

"""Other processes on a card. None is called another one that may be this very process."""

import os
import sys
from functools import lru_cache
from typing import NamedTuple

import psutil
import torch

from .nvml import CardProcess, card_processes
from .snapshot import DeviceMemory, measure_device

# The number of the file /proc/self/ns/pid outside of containers (Linux, include/linux/proc_ns.h).
HOST_NAMESPACE = 0xEFFFFFFC


class OtherProcess(NamedTuple):
    """A process, as a person finds it: by name and number, in a container by the host's number."""

    name: str
    used_bytes: int


def other_processes(device: torch.device) -> list[OtherProcess]:
    """Return the other processes on the card of `device`, the largest first; empty if not known.

    NVML gives the numbers that the host has for processes: in a container ours is not among them,
    or is that of another one. What can be us by its bytes is left out then. Windows (WDDM) tells no
    bytes, some containers tell no numbers: such processes are left out as well.
    """
    found, ours = _processes(device)
    others = [OtherProcess(_name(one.number), one.used_bytes or 0) for one in found
              if one.number and one.used_bytes and one not in ours]
    return sorted(others, key=lambda other: -other.used_bytes)


def own_bytes(device: torch.device) -> int | None:
    """Return what this process has of the card by its driver, with its context; None: not told."""
    ours = _processes(device)[1]
    return ours[0].used_bytes if len(ours) == 1 else None


def _processes(device: torch.device) -> tuple[list[CardProcess], list[CardProcess]]:
    """Return the processes on the card whose bytes are told, and those that may be this one."""
    before = measure_device(device)
    found = [one for one in card_processes(device) if one.used_bytes is not None]
    return found, _can_be_us(found, before, measure_device(device)) if before.in_use else []


def _can_be_us(
    found: list[CardProcess], before: DeviceMemory, after: DeviceMemory
) -> list[CardProcess]:
    """Return the processes that may be this one; memory is as it was `before` and `after` asking.

    We have what torch and dynamic VRAM hold, and a context. Others have at most what is left: who
    has more than that is us for sure.
    """
    if _has_host_numbers() and (own := [one for one in found if one.number == os.getpid()]):
        return own
    held = min(memory.held_bytes or 0 for memory in (before, after))
    fits = [one for one in found if (one.used_bytes or 0) >= held]
    used = [memory.used_bytes for memory in (before, after)]
    if None in used:
        return fits
    left = max(amount or 0 for amount in used) - held
    return [one for one in fits if (one.used_bytes or 0) > left] or fits


@lru_cache(maxsize=1)
def _has_host_numbers() -> bool:
    """Return whether processes have the same numbers here as on the host: no container is around.
    """
    if sys.platform != "linux":
        return True
    try:
        return os.stat("/proc/self/ns/pid").st_ino == HOST_NAMESPACE
    except OSError:
        return False


def _name(number: int) -> str:
    if not _has_host_numbers():
        return f"PID {number} (host)"
    try:
        return f"{psutil.Process(number).name()} ({number})"
    except psutil.Error:
        return f"PID {number}"

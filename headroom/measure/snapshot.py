"""Snapshots of memory: every device as the driver, torch and dynamic VRAM see it, and RAM."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import psutil
import torch

from ..base import device as devices
from ..base.ceiling import Ceiling, ceiling_of
from ..base.device import MIB
from ..base.ram import ram_room_bytes
from ..host.adapter import current_host
from .nvml import card_memory, card_name


@dataclass(frozen=True)
class DeviceMemory:
    """One device at one moment, in bytes; None if it is not known.

    `driver_free_bytes` counts every process on the card, the others only this one.
    `dynamic_bytes` are ComfyUI's dynamic-VRAM pages, which torch's counters do not include.
    `in_use` is False while this process has no context on the device, so it holds nothing there.
    `ceiling`: the limit for this process, if there is one.
    """

    device: str
    name: str
    total_bytes: int | None
    driver_free_bytes: int | None
    allocated_bytes: int | None
    reserved_bytes: int | None
    dynamic_bytes: int | None
    in_use: bool = True
    ceiling: Ceiling | None = None

    @property
    def held_bytes(self) -> int | None:
        """Bytes that this process has taken: torch's reserve and dynamic-VRAM pages."""
        return None if self.reserved_bytes is None else self.reserved_bytes + (
            self.dynamic_bytes or 0)

    @property
    def used_bytes(self) -> int | None:
        """Bytes in use on the device: of all processes by its driver, else of this process."""
        if self.driver_free_bytes is not None and self.total_bytes is not None:
            return self.total_bytes - self.driver_free_bytes
        return self.held_bytes

    @property
    def other_bytes(self) -> int | None:
        """Bytes in use that this process does not hold: by others, and for driver contexts."""
        if self.driver_free_bytes is None or self.used_bytes is None or self.held_bytes is None:
            return None
        return max(self.used_bytes - self.held_bytes, 0)

    @property
    def unused_bytes(self) -> int | None:
        """Bytes of torch's reserve that no tensor uses."""
        if self.reserved_bytes is None or self.allocated_bytes is None:
            return None
        return self.reserved_bytes - self.allocated_bytes

    @property
    def left_bytes(self) -> int | None:
        """Bytes that this process can still get from the driver, up to its ceiling."""
        if self.driver_free_bytes is None or self.ceiling is None:
            return self.driver_free_bytes
        left = self.ceiling.left_bytes(self.reserved_bytes or 0, self.dynamic_bytes or 0)
        return min(self.driver_free_bytes, left)

    @property
    def available_bytes(self) -> int | None:
        """Bytes that a new tensor of this process can get: free, plus torch's unused reserve."""
        return self._room_bytes(0)

    @property
    def room_bytes(self) -> int | None:
        """Bytes that a new tensor can get after all dynamic-VRAM pages are freed for it."""
        return self._room_bytes(self.dynamic_bytes or 0)

    def _room_bytes(self, yields_bytes: int) -> int | None:
        if self.driver_free_bytes is None:
            return None
        room = self.driver_free_bytes + (self.unused_bytes or 0) + yields_bytes
        if self.ceiling is None:
            return room
        return min(room, self.ceiling.left_bytes(
            self.allocated_bytes or 0, (self.dynamic_bytes or 0) - yields_bytes))


@dataclass(frozen=True)
class Snapshot:
    """All devices and RAM at one moment; `ram_available_bytes`: what is left to this process."""

    devices: tuple[DeviceMemory, ...]
    rss_bytes: int
    ram_available_bytes: int

    @property
    def in_use(self) -> tuple[DeviceMemory, ...]:
        return tuple(device for device in self.devices if device.in_use)

    @property
    def least_room_bytes(self) -> int | None:
        """The room on the device in use on which the next tensor fails first; None: not known."""
        return min((room for device in self.in_use if (room := device.room_bytes) is not None),
                   default=None)


def snapshot() -> Snapshot:
    """Measure every device in use and this process's RAM; it takes 0.2 ms."""
    return Snapshot(
        devices=tuple(measure_device(device) for device in used_devices()),
        rss_bytes=rss_bytes(),
        ram_available_bytes=ram_room_bytes(),
    )


def used_devices() -> list[torch.device]:
    """Return the devices that models use: ComfyUI's choice if it runs, else torch's."""
    host = current_host()
    if host is not None:
        found: list[torch.device] = host.gpu_devices()
        return found
    return devices.accelerators()


def devices_in_use() -> list[torch.device]:
    """Return those of `used_devices` that this process has started; asking starts none."""
    return [device for device in used_devices() if devices.is_in_use(device)]


def measure_device(device: torch.device) -> DeviceMemory:
    """Measure one device without starting it; NVML is asked only if torch cannot tell."""
    in_use = devices.is_in_use(device)
    driver = devices.driver_memory(device) or card_memory(device)
    allocated, reserved = devices.torch_memory(device)
    host = current_host()
    return DeviceMemory(
        device=str(device),
        name=_name(device) if in_use else card_name(device) or str(device),
        driver_free_bytes=driver[0] if driver else None,
        total_bytes=driver[1] if driver else None,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        dynamic_bytes=host.dynamic_bytes(device) if host is not None else None,
        in_use=in_use,
        ceiling=ceiling_of(device) if in_use else None,
    )


@lru_cache(maxsize=16)
def _name(device: torch.device) -> str:
    return devices.device_name(device)


def rss_bytes() -> int:
    """Return the resident memory of this process (RSS), in bytes."""
    return _rss_of(os.getpid())()


@lru_cache(maxsize=1)
def _rss_of(process: int) -> Callable[[], int]:
    """Read it from a file that stays open (Linux): psutil opens it each time, 0.1 ms per node."""
    if sys.platform != "linux":
        told = psutil.Process(process)
        return lambda: int(told.memory_info().rss)
    file, page_bytes = os.open(f"/proc/{process}/statm", os.O_RDONLY), os.sysconf("SC_PAGE_SIZE")
    return lambda: int(os.pread(file, 128, 0).split(None, 2)[1]) * page_bytes


def freed_bytes(before: Snapshot, after: Snapshot) -> int | None:
    """Return how much less this process holds on its devices; 0 if it holds more.

    This is by its own counters: the driver's figure also changes with other programs. The driver's
    figure counts only if torch cannot tell; None if neither can.
    """
    less = [amount for pair in _pairs(before, after) if (amount := _less(*pair)) is not None]
    return max(0, sum(less)) if less or not after.in_use else None


def freed_mib(before: Snapshot, after: Snapshot) -> float | None:
    """Return the same in MiB."""
    freed = freed_bytes(before, after)
    return None if freed is None else freed / MIB


def others_took_bytes(before: Snapshot, after: Snapshot) -> int:
    """Return how much more others use of the same devices, by the driver; it may be negative."""
    pairs = [(old.other_bytes, new.other_bytes) for old, new in _pairs(before, after)]
    return sum(new - old for old, new in pairs if old is not None and new is not None)


def _pairs(before: Snapshot, after: Snapshot) -> list[tuple[DeviceMemory, DeviceMemory]]:
    """Yield each device in use with its old and new figures; other devices do not matter."""
    earlier = {device.device: device for device in before.devices}
    return [(earlier.get(device.device, device), device) for device in after.in_use]


def _less(old: DeviceMemory, new: DeviceMemory) -> int | None:
    for was, now in ((old.held_bytes, new.held_bytes), (old.used_bytes, new.used_bytes)):
        if was is not None and now is not None:
            return was - now
    return None


def freed_rss_mib(before: Snapshot, after: Snapshot) -> float:
    """Return the MiB by which this process's RSS fell; negative if it rose."""
    return (before.rss_bytes - after.rss_bytes) / MIB

"""How much a failed call lacked, on which device, and how much it would need there.

A call fails while it holds what it has made so far. What it asked for beyond what could be had
then is missing; what it held and what it asked for together is the least that a repeated call
needs, because it may come further and want more. So `missing_bytes` is a lower bound: what cannot
spare so much cannot help.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..base.device import same_device
from ..base.error_table import Where
from ..measure.snapshot import DeviceMemory, Snapshot
from .failure import Failure

_INDEX = re.compile(r"\bGPU (\d+)\b|\bdevice (\d+)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Lack:
    """What a failed call lacked on `device` (None: not known, or RAM); None: nobody can tell.

    `need_bytes` is what the call held itself and asked for, `room_bytes` what a repeated call can
    have. `garbage_bytes` went back to the driver between the two without being the call's own.
    `stuck_bytes` are the pages of dynamic VRAM that had not yielded to the failed call,
    `buffers_bytes` those of `need_bytes` through which weights were streamed. `is_certain`: beside
    the very tensors that the call held there is no room for what it asked, wherever they may lie.
    `is_last`: no other try will follow the next.
    """

    where: Where
    device: torch.device | None = None
    asked_bytes: int | None = None
    missing_bytes: int | None = None
    need_bytes: int | None = None
    room_bytes: int | None = None
    garbage_bytes: int = 0
    stuck_bytes: int = 0
    buffers_bytes: int = 0
    is_certain: bool = False
    is_last: bool = False

    def at_least(self, need_bytes: float) -> "Lack":
        """Return the same for a call that is known to need so much at least.

        What it lacks then is lacking with every page gone: to take pages away spares nothing more.
        """
        if self.need_bytes is None or self.room_bytes is None or need_bytes <= self.need_bytes:
            return self
        missing = int(need_bytes) - self.room_bytes
        return replace(self, need_bytes=int(need_bytes), missing_bytes=missing, stuck_bytes=0)

    def less(self, spared_bytes: int) -> "Lack":
        """Return what is still missing when so many bytes have been spared."""
        if self.missing_bytes is None or self.room_bytes is None:
            return self
        return replace(
            self, missing_bytes=self.missing_bytes - spared_bytes,
            room_bytes=self.room_bytes + spared_bytes,
        )

    def share_of(self, parts: int, spare: float = 1.0, buffers_bytes: int = 0) -> int | None:
        """Return how many of `parts` equal parts the call could have in the room there is.

        buffers_bytes: what streaming weights will take of the room, however few the parts.
        """
        if not self.need_bytes or self.room_bytes is None:
            return None
        need = self.need_bytes - min(buffers_bytes, self.buffers_bytes)
        return int(parts * spare * max(0, self.room_bytes - buffers_bytes) / max(need, 1))


def lack_of(failure: Failure, used: Sequence[torch.device], clean: Snapshot) -> Lack:
    """Return what `failure` lacked, now that everything it held has been let go of.

    used: the devices of the models that the failed call uses. clean: memory as it is now.
    """
    held = failure.held
    full = full_device(failure, used) if failure.where == "device" else None
    now = next((d for d in clean.devices if full is not None and d.device == full.device), None)
    if held is None or failure.memory is None or full is None or now is None:
        return Lack(failure.where, asked_bytes=failure.requested_bytes)
    device, asked = torch.device(full.device), failure.requested_bytes
    left, room = _left(failure.memory, full), now.room_bytes
    if left is None or room is None or asked is None:
        return Lack(failure.where, device, asked)
    own = max(0, room - left)
    freed = _in_use(failure.memory) - _in_use(clean)
    return Lack(
        failure.where, device, asked, asked - left, asked + own, room, max(0, freed - own),
        full.dynamic_bytes or 0, failure.buffers_bytes, _is_certain(asked, full, now, room),
    )


def _in_use(memory: Snapshot) -> int:
    return sum(device.used_bytes or 0 for device in memory.devices)


def _is_certain(asked: int, held: DeviceMemory, now: DeviceMemory, room: int) -> bool:
    if held.allocated_bytes is None or now.allocated_bytes is None:
        return False
    return asked + max(0, held.allocated_bytes - now.allocated_bytes) > room


def full_device(failure: Failure, used: Sequence[torch.device]) -> DeviceMemory | None:
    """Return the device that was full, as it was while the failed call held what it had.

    The one that the error names; else, of those in `used`, the one with the least left.
    """
    devices = failure.held.devices if failure.held is not None else ()
    named = _INDEX.search(failure.message)
    if named is not None:
        index = int(named.group(1) or named.group(2))
        devices = tuple(
            d for d in devices if (torch.device(d.device).index or 0) == index
        ) or devices
    found = [d for d in devices if any(same_device(torch.device(d.device), u) for u in used)]
    return min(
        found or devices[:1], key=lambda device: device.available_bytes or 0, default=None
    )


def _left(memory: Snapshot, held: DeviceMemory) -> int | None:
    """Return the bytes that the failed call could still have had, but for garbage.

    Torch's cache does not count: it had been searched, and what is left of it are pieces between
    the tensors of the call, where they will be again. Nor do pages of dynamic VRAM, which the pager
    had not given up: other steps take these.
    """
    before = next(device for device in memory.devices if device.device == held.device)
    if before.left_bytes is None:
        return None
    garbage = (before.allocated_bytes or 0) - (held.allocated_bytes or 0)
    return before.left_bytes + max(0, garbage)

"""How much a failed call lacked, on which device, and how much it would need there.

A call fails while it holds what it has made so far. What it asked for beyond what could be had
then is missing; what it held and what it asked for together is the least that a repeated call
needs, because it may come further and want more. So `missing_bytes` is a lower bound: a step that
cannot spare so much cannot help.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..base.device import same_device
from ..measure.snapshot import DeviceMemory, Snapshot
from .errors import Where
from .failure import Failure

_INDEX = re.compile(r"\bGPU (\d+)\b|\bdevice (\d+)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Shortage:
    """What a failed call lacked on `device` (None: not known, or RAM); None: nobody can tell.

    `need_bytes` is what the call held itself and asked for, `room_bytes` what a repeated call can
    have. `garbage_bytes` went back to the driver between the two without being the call's own.
    `stuck_bytes` are the pages of dynamic VRAM that had not yielded to the failed call,
    `buffers_bytes` those of `need_bytes` through which weights were streamed.
    `lacking_bytes` is what is missing for certain: for what was asked beside the very tensors that
    the call held, wherever they may lie the next time.
    `tries` counts the retries so far after more than a return of memory, `is_changed` tells that
    one of them was after a step that is not exact.
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
    lacking_bytes: int | None = None
    tries: int = 0
    is_changed: bool = False

    def expecting(self, need_bytes: float) -> "Shortage":
        """Return the same for a call that is known to need so much at least.

        What it lacks then is lacking with every page gone: to take pages away spares nothing more.
        """
        if self.need_bytes is None or self.room_bytes is None or need_bytes <= self.need_bytes:
            return self
        missing = int(need_bytes) - self.room_bytes
        return replace(self, need_bytes=int(need_bytes), missing_bytes=missing, stuck_bytes=0)

    @property
    def is_hopeless(self) -> bool:
        """Return whether the same call cannot succeed, in whatever order memory is handed out."""
        return self.lacking_bytes is not None and self.lacking_bytes > 0

    def less(self, spared_bytes: int) -> "Shortage":
        """Return what is still missing when a step has spared so many bytes."""
        if self.missing_bytes is None or self.room_bytes is None:
            return self
        return replace(
            self, missing_bytes=self.missing_bytes - spared_bytes,
            room_bytes=self.room_bytes + spared_bytes,
        )

    def share_of(self, rows: int, spare: float = 1.0, buffers_bytes: int = 0) -> int | None:
        """Return how many of `rows` equal parts the call could have in the room there is.

        buffers_bytes: what streaming weights will take of the room, however few the parts.
        """
        if not self.need_bytes or self.room_bytes is None:
            return None
        parts = self.need_bytes - min(buffers_bytes, self.buffers_bytes)
        return int(rows * spare * max(0, self.room_bytes - buffers_bytes) / max(parts, 1))


def lacked_so_far(lacked: int | None, shortage: Shortage) -> int | None:
    """Return the last known amount that the tries so far have lacked; None while none is known.

    0 where memory was only in pieces or not yet dead.
    """
    missing = shortage.missing_bytes
    return lacked if missing is None else max(missing, 0) or lacked or 0


def shortage_of(failure: Failure, used: Sequence[torch.device], clean: Snapshot) -> Shortage:
    """Return what `failure` lacked, now that everything it held has been let go of.

    used: the devices of the models that the failed call uses. clean: memory as it is now.
    """
    held = failure.held
    full = full_device(failure, used) if failure.where == "device" else None
    now = next((d for d in clean.devices if full is not None and d.device == full.device), None)
    if held is None or failure.memory is None or full is None or now is None:
        return Shortage(failure.where, asked_bytes=failure.requested_bytes)
    device, asked = torch.device(full.device), failure.requested_bytes
    left, room = _left(failure.memory, full), now.room_bytes
    if left is None or room is None:
        return Shortage(failure.where, device, asked)
    own = max(0, room - left)
    freed = _in_use(failure.memory) - _in_use(clean)
    return Shortage(
        failure.where, device, asked, None if asked is None else asked - left,
        None if asked is None else asked + own, room, max(0, freed - own), full.dynamic_bytes or 0,
        failure.buffers_bytes, _lacking(asked, full, now, room),
    )


def _in_use(memory: Snapshot) -> int:
    return sum(device.used_bytes or 0 for device in memory.devices)


def _lacking(asked: int | None, held: DeviceMemory, now: DeviceMemory, room: int) -> int | None:
    if asked is None or held.allocated_bytes is None or now.allocated_bytes is None:
        return None
    return asked + max(0, held.allocated_bytes - now.allocated_bytes) - room


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
    if before.driver_free_bytes is None:
        return None
    garbage = (before.allocated_bytes or 0) - (held.allocated_bytes or 0)
    return before.driver_free_bytes + max(0, garbage)

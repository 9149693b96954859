"""How many bytes a failed call lacked, on which device, and how many it needs there.

A call fails while it holds the tensors that it has made so far. `missing_bytes` is what it asked
for, less what it could still get. A repeated call needs at least what the failed call held plus
what it asked for, because it may get further and ask for more. So `missing_bytes` is a lower bound:
a step that frees less than that cannot help.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..base.device import same_device
from ..base.error_table import Where
from ..measure.snapshot import DeviceMemory, Snapshot
from .attempt import Failure

_INDEX = re.compile(r"\bGPU (\d+)\b|\bdevice (\d+)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Lack:
    """What a failed call lacked on `device` (None: RAM, or not known). Bytes are None if not known.

    `held_bytes`: what the call held. `need_bytes`: that and what it asked for, together, or
    ComfyUI's estimate if that is more. `room_bytes`: what a repeated call can use. `garbage_bytes`:
    freed after the failure, though the call did not hold them. `stuck_bytes`: pages of dynamic VRAM
    that were not freed for the failed call. `buffers_bytes`: the part of `need_bytes` in buffers
    that stream weights. `is_certain`: beside the tensors that the call held there is no room for
    what it asked for, even without fragmentation. `is_last`: no attempt follows the next one.
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
    held_bytes: int | None = None

    @property
    def is_too_much(self) -> bool:
        """Whether the call is known to need more than a repeated call can use."""
        needs_more = (self.need_bytes or 0) > (self.room_bytes or math.inf)
        return needs_more and (self.missing_bytes or 0) > 0

    def at_least(self, need_bytes: float) -> "Lack":
        """Return the lack of a call that is known to need `need_bytes` at least.

        Its missing bytes are counted with all pages freed: freeing pages cannot help any more.
        """
        if self.need_bytes is None or self.room_bytes is None or need_bytes <= self.need_bytes:
            return self
        missing = int(need_bytes) - self.room_bytes
        return replace(self, need_bytes=int(need_bytes), missing_bytes=missing, stuck_bytes=0)

    def less(self, spared_bytes: int) -> "Lack":
        """Return what is still missing after `spared_bytes` have been freed."""
        if self.missing_bytes is None or self.room_bytes is None:
            return self
        return replace(
            self, missing_bytes=self.missing_bytes - spared_bytes,
            room_bytes=self.room_bytes + spared_bytes,
        )

    def share_of(self, parts: int, spare: float = 1.0, buffers_bytes: int = 0) -> int | None:
        """Return how many of `parts` equal parts of the call fit into the room.

        buffers_bytes: what streaming weights takes of the room, whatever the number of parts.
        """
        if not self.need_bytes or self.room_bytes is None:
            return None
        need = self.need_bytes - min(buffers_bytes, self.buffers_bytes)
        return int(parts * spare * max(0, self.room_bytes - buffers_bytes) / max(need, 1))


def lack_of(failure: Failure, used: Sequence[torch.device], clean: Snapshot) -> Lack:
    """Return what `failure` lacked. Call it after everything that the failure held is freed.

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
        held_bytes=own,
    )


def _in_use(memory: Snapshot) -> int:
    return sum(device.used_bytes or 0 for device in memory.devices)


def _is_certain(asked: int, held: DeviceMemory, now: DeviceMemory, room: int) -> bool:
    if held.allocated_bytes is None or now.allocated_bytes is None:
        return False
    return asked + max(0, held.allocated_bytes - now.allocated_bytes) > room


def full_device(failure: Failure, used: Sequence[torch.device]) -> DeviceMemory | None:
    """Return the device that was full, measured while the failed call held its tensors.

    It is the one that the error names; else, of those in `used`, the one with the least left.
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
    """Return the bytes that the failed call could still get, with garbage collected.

    Torch's cache does not count: torch had searched it. What is left there lies in pieces between
    the tensors of the call, and will lie so in the next attempt. Pages of dynamic VRAM that the
    pager had not freed do not count: other steps free these.
    """
    before = next(device for device in memory.devices if device.device == held.device)
    if before.left_bytes is None:
        return None
    garbage = (before.allocated_bytes or 0) - (held.allocated_bytes or 0)
    return before.left_bytes + max(0, garbage)

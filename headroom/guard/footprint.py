"""What a call takes on its device, read off torch's cache afterwards: no counter is reset.

Before a retry torch's cache has been given back, so what is cached and unused after the call is
what the call needed at its peak, in the driver's blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..base import device as devices
from ..host.adapter import guard_host
from ..measure.snapshot import measure_device


@dataclass(frozen=True)
class Footprint:
    """Bytes: the peak of a call over what is there when it ends, and what it could have."""

    need_bytes: int
    room_bytes: int


class Measuring:
    """Begins right before a call, with an empty cache.

    buffers: how many bytes streaming the weights of the call takes when no page of them is left.
    """

    def __init__(self, device: torch.device, buffers: Callable[[], int] = lambda: 0) -> None:
        self._device = device
        self._buffers = buffers
        self._before = measure_device(device)
        self._returned = _returned(device)

    def done(self) -> Footprint | None:
        """Return what the call took, None where nobody can tell.

        Blocks that were given back meanwhile may have been in use together with those that are
        there at the end. The pool of cudaMallocAsync, which does not count them, gives nothing back
        by itself: PyTorch sets its release threshold to the highest number.
        """
        after = measure_device(self._device)
        room, cached, before = after.room_bytes, after.unused_bytes, self._before.unused_bytes
        came_back = _returned(self._device)
        if room is None or cached is None or before is None:
            return None
        if came_back is None or self._returned is None:
            if not devices.is_pool(self._device):
                return None
            came_back = self._returned = 0
        returned = came_back - self._returned
        room = max(0, room - self._buffers_to_come())
        return Footprint(min(room, max(0, cached - before) + max(0, returned)), room)

    def _buffers_to_come(self) -> int:
        guard = guard_host()
        return max(0, self._buffers() - guard.buffers_bytes()) if guard is not None else 0


def _returned(device: torch.device) -> int | None:
    """Return the bytes that torch's allocator has given back to the driver so far."""
    reserve = devices.torch_reserve(device)
    return None if reserve is None else reserve.returned_bytes

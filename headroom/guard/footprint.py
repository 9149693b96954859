"""What a call took on its device, read off torch's cache afterwards: no counter is reset.

Before a retry torch's cache has been given back, so what is cached and unused after the call is
what the call needed at its peak, in the driver's blocks.
"""

import torch

from ..base import device as devices
from ..measure.snapshot import measure_device


class Footprint:
    """Begins right before a call, with an empty cache."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = self._cached()

    def bytes(self) -> tuple[int, int] | None:
        """Return what the call took, and what it could have had; None where nobody can tell."""
        room, now = measure_device(self._device).room_bytes, self._cached()
        if room is None or now is None or self._before is None:
            return None
        return min(room, max(0, now - self._before)), room

    def _cached(self) -> int | None:
        """Return what is cached and unused, and what has been given back to the driver so far.

        What was given back meanwhile may have been in use together with what is there at the end.
        The pool of cudaMallocAsync, which does not count it, gives nothing back by itself.
        """
        memory = measure_device(self._device)
        reserve = devices.torch_reserve(self._device)
        returned = None if reserve is None else reserve.returned_bytes
        if returned is None and devices.is_pool(self._device):
            returned = 0
        if memory.reserved_bytes is None or memory.allocated_bytes is None or returned is None:
            return None
        return memory.reserved_bytes - memory.allocated_bytes + returned

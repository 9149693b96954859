"""What a call took on its device, read from torch's cache afterwards, without a reset of counters.

Before a retry torch's cache is returned to the driver. So what is cached and unused after the call
is what the call needed at its peak, in the driver's blocks.
"""

import torch

from ..base import device as devices
from ..measure.snapshot import measure_device


class Footprint:
    """Create it right before a call, while the cache is empty."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = self._cached()

    def bytes(self) -> tuple[int, int] | None:
        """Return what the call took and what it could take; None where nobody can tell."""
        room, now = measure_device(self._device).room_bytes, self._cached()
        if room is None or now is None or self._before is None:
            return None
        return min(room, max(0, now - self._before)), room

    def _cached(self) -> int | None:
        """Return the bytes that are cached and unused, and those returned to the driver so far.

        What the call returned may have been in use together with what is cached at the end. The
        pool of cudaMallocAsync does not count what it returns, but returns nothing by itself.
        """
        memory = measure_device(self._device)
        reserve = devices.torch_reserve(self._device)
        returned = None if reserve is None else reserve.returned_bytes
        if returned is None and devices.is_pool(self._device):
            returned = 0
        if memory.reserved_bytes is None or memory.allocated_bytes is None or returned is None:
            return None
        return memory.reserved_bytes - memory.allocated_bytes + returned

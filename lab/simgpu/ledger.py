"""Counts the bytes that tensors have, and those that the allocator has from the driver.

It is a caching allocator without blocks: freed bytes stay reserved until they are used again, until
the cache is emptied, or until the driver has nothing left. Any request that is not larger than they
are fits into them. Which blocks and segments PyTorch really makes is measured with its own
allocator, on the fake CUDA driver.
"""

from __future__ import annotations

from .stats import AllocatorStats

MIN_BLOCK = 512  # PyTorch rounds every size up to a multiple of this
MIB = 1 << 20


class LedgerFull(Exception):
    """No memory for a request, after the cache was released and the request tried again."""

    def __init__(self, requested_bytes: int, asked_bytes: int) -> None:
        super().__init__(f"no room for {requested_bytes} bytes")
        self.asked_bytes = asked_bytes  # what PyTorch's text names


class Ledger:
    """The allocator of one device of `capacity_bytes`.

    `other_process_bytes` is memory that somebody else holds on the device: the driver's free
    figure and the room of this process shrink by it.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.other_process_bytes = 0
        self.allowed_bytes: int | None = None  # of `set_per_process_memory_fraction`
        self.stats = AllocatorStats()

    @property
    def allocated_bytes(self) -> int:
        """Bytes that tensors have."""
        return self.stats.allocated_bytes.current

    @property
    def reserved_bytes(self) -> int:
        """Bytes taken from the driver, in use or cached."""
        return self.stats.reserved_bytes.current

    def malloc(self, nbytes: int, refuse: bool = False) -> int | None:
        """Take `nbytes`, which are returned; None for zero, as the real allocator gives none.

        `refuse` makes the device refuse this request whatever is free: the cache is released
        and the request counted as retried and failed, as in a real shortage.
        Raises LedgerFull.
        """
        if nbytes == 0:
            return None
        size = round_size(nbytes)
        if refuse or not self._reserve(size):
            self.empty_cache()
            self.stats.num_alloc_retries += 1
            if refuse or not self._reserve(size):
                self.stats.num_ooms += 1
                raise LedgerFull(nbytes, size)
        self.stats.allocation.add(1)
        self.stats.allocated_bytes.add(size)
        self.stats.requested_bytes.add(nbytes)
        return nbytes

    def free(self, nbytes: int) -> None:
        """Take back what a request of `nbytes` got, into the cache."""
        self.stats.allocation.take(1)
        self.stats.allocated_bytes.take(round_size(nbytes))
        self.stats.requested_bytes.take(nbytes)

    def empty_cache(self) -> None:
        """Return to the driver what no tensor uses."""
        self.stats.reserved_bytes.take(self.reserved_bytes - self.allocated_bytes)

    def mem_get_info(self) -> tuple[int, int]:
        """What the driver says: (free bytes, total bytes) of the device."""
        taken = self.reserved_bytes + self.other_process_bytes
        return max(0, self.capacity_bytes - taken), self.capacity_bytes

    def set_memory_fraction(self, fraction: float) -> None:
        """Cap what this process may reserve to a fraction of the capacity."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"expected a fraction from 0 to 1, got {fraction}")
        self.allowed_bytes = int(fraction * self.capacity_bytes)

    def _reserve(self, size: int) -> bool:
        """Reserve room for `size` more bytes, from cache or driver; False if there is none."""
        more = self.allocated_bytes + size - self.reserved_bytes
        if more > 0:
            allowed = self.allowed_bytes
            if allowed is not None and self.reserved_bytes + more > allowed:
                return False
            if more > self.mem_get_info()[0]:
                return False
            self.stats.reserved_bytes.add(more)
        return True


def round_size(nbytes: int) -> int:
    """Bytes that a request of `nbytes` takes."""
    return -(-nbytes // MIN_BLOCK) * MIN_BLOCK

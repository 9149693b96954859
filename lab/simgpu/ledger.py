"""A model of PyTorch's native CUDA caching allocator, exact to the byte and free of torch.

It keeps no data: it answers which block a request gets, what the driver is asked for, and what
`torch.cuda.memory_stats()` would say. One stream, default settings. `expandable_segments`,
`max_split_size_mb`, `garbage_collection_threshold` and `roundup_power2_divisions` are not modelled:
the fake CUDA driver runs PyTorch's own allocator.
"""

from __future__ import annotations

from .blocks import (
    MIN_BLOCK,
    ROUND_LARGE,
    SMALL_SIZE,
    Block,
    Pool,
    chain,
    merge,
    round_size,
    segment_size,
)
from .stats import AllocatorStats

FIRST_ADDRESS = 0x7F00_0000_0000


class LedgerFull(Exception):
    """No memory for a request, after the cache was released and the request tried again."""

    def __init__(self, requested_bytes: int, asked_bytes: int) -> None:
        super().__init__(f"no room for {requested_bytes} bytes")
        self.requested_bytes = requested_bytes
        self.asked_bytes = asked_bytes  # what the driver was asked for; PyTorch's text names it


class Ledger:
    """The allocator of one device of `capacity_bytes`.

    `other_process_bytes` is memory that somebody else holds on the device: the driver's free
    figure and the room for new segments shrink by it.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.other_process_bytes = 0
        self.stats = AllocatorStats()
        self._allowed_bytes: int | None = None
        self._small, self._large = Pool(small=True), Pool(small=False)
        self._heads: dict[int, Block] = {}  # first block of each segment, by address
        self._next_address = FIRST_ADDRESS

    @property
    def allocated_bytes(self) -> int:
        """Bytes in blocks that are in use."""
        return self.stats.allocated_bytes.all.current

    @property
    def reserved_bytes(self) -> int:
        """Bytes taken from the driver, in use or cached."""
        return self.stats.reserved_bytes.all.current

    @property
    def allowed_bytes(self) -> int | None:
        """The limit of `set_per_process_memory_fraction`; None when none was set."""
        return self._allowed_bytes

    def malloc(self, nbytes: int, refuse: bool = False) -> Block | None:
        """Give `nbytes` a block; None for zero bytes, as the real allocator gives a null pointer.

        `refuse` makes the device refuse this request whatever is free: the cache is released
        and the request counted as retried and failed, as in a real shortage.
        Raises LedgerFull.
        """
        if nbytes == 0:
            return None
        size = round_size(nbytes)
        pool = self._small if size <= SMALL_SIZE else self._large
        block = self._find(pool, size, refuse)
        if block is None:
            self.stats.num_ooms += 1
            raise LedgerFull(nbytes, segment_size(size))
        return self._hand_out(block, size, nbytes)

    def free(self, block: Block) -> None:
        """Take a block back into the cache, joined with its free neighbours."""
        stats, small = self.stats, block.pool.small
        block.allocated = False
        stats.allocation.take(1, small)
        stats.allocated_bytes.take(block.size, small)
        stats.requested_bytes.take(block.requested, small)
        gained = [merge(block, block.previous), merge(block, block.next)]
        block.pool.insert(block)
        self._note_head(block)
        split = block.is_split()
        stats.inactive_split.change(split - sum(map(bool, gained)), small)
        stats.inactive_split_bytes.change((block.size if split else 0) - sum(gained), small)

    def empty_cache(self) -> None:
        """Give every segment without a used block back to the driver.

        PyTorch waits for all streams first, and counts that.
        """
        self.stats.num_sync_all_streams += 1
        for pool in (self._large, self._small):
            for block in pool.blocks():
                if not block.is_split():
                    self._release(block)

    def mem_get_info(self) -> tuple[int, int]:
        """What the driver says: (free bytes, total bytes) of the device."""
        taken = self.reserved_bytes + self.other_process_bytes
        return max(0, self.capacity_bytes - taken), self.capacity_bytes

    def set_memory_fraction(self, fraction: float) -> None:
        """Cap what this process may reserve to a fraction of the capacity."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"expected a fraction from 0 to 1, got {fraction}")
        self._allowed_bytes = int(fraction * self.capacity_bytes)

    def segments(self) -> list[list[Block]]:
        """Every segment as its blocks in order of address."""
        return [chain(self._heads[address]) for address in sorted(self._heads)]

    def _note_head(self, block: Block) -> None:
        if block.previous is None:
            self._heads[block.address] = block

    def _take_addresses(self, nbytes: int) -> int:
        start = self._next_address
        self._next_address += -(-nbytes // ROUND_LARGE) * ROUND_LARGE
        return start

    def _find(self, pool: Pool, size: int, refuse: bool) -> Block | None:
        if not refuse:
            block = self._cached(pool, size) or self._from_driver(pool, size)
            if block is not None:
                return block
        self.empty_cache()
        self.stats.num_alloc_retries += 1
        return None if refuse else self._from_driver(pool, size)

    def _cached(self, pool: Pool, size: int) -> Block | None:
        block = pool.best_fit(size)
        if block is not None:
            pool.remove(block)
        return block

    def _from_driver(self, pool: Pool, size: int) -> Block | None:
        nbytes = segment_size(size)
        if self._allowed_bytes is not None and self.reserved_bytes + nbytes > self._allowed_bytes:
            return None
        if nbytes > self.mem_get_info()[0]:
            return None
        block = Block(self._take_addresses(nbytes), nbytes, pool)
        self._note_head(block)
        self.stats.segment.add(1, pool.small)
        self.stats.reserved_bytes.add(nbytes, pool.small)
        self.stats.num_device_alloc += 1
        return block

    def _hand_out(self, found: Block, size: int, nbytes: int) -> Block:
        stats, small = self.stats, found.pool.small
        was_split, block = found.is_split(), found
        if self._should_split(found, size):
            block = found.cut(size)
            found.pool.insert(found)
            self._note_head(block)
        self._count_split(found, block, was_split)
        block.allocated, block.requested = True, nbytes
        stats.allocation.add(1, small)
        stats.allocated_bytes.add(block.size, small)
        stats.requested_bytes.add(nbytes, small)
        return block

    def _count_split(self, rest: Block, block: Block, was_split: bool) -> None:
        stats, small = self.stats, rest.pool.small
        if was_split:
            stats.inactive_split_bytes.take(block.size, small)
            stats.inactive_split.change(-1 if rest is block else 0, small)
        elif rest is not block:
            stats.inactive_split.add(1, small)
            stats.inactive_split_bytes.add(rest.size, small)

    def _should_split(self, block: Block, size: int) -> bool:
        remaining = block.size - size
        if block.pool.small:
            return remaining >= MIN_BLOCK
        return remaining > SMALL_SIZE

    def _release(self, block: Block) -> None:
        block.pool.remove(block)
        del self._heads[block.address]
        self.stats.segment.take(1, block.pool.small)
        self.stats.reserved_bytes.take(block.size, block.pool.small)
        self.stats.num_device_free += 1

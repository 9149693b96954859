"""The `expandable_segments:True` mode: address space first, memory mapped into it as needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .blocks import LARGE_SEGMENT, SMALL_SEGMENT, AddressRange, Block, Pool, merge

if TYPE_CHECKING:
    from .ledger import Ledger


class Mapper:
    """Maps memory into address ranges of one ledger, and takes it out again."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.ranges: set[AddressRange] = set()

    def grow(self, pool: Pool, size: int) -> Block | None:
        """A free block of at least `size` made by mapping memory; None when there is none."""
        block: Block | None = self._candidate(pool, size)
        if block is not None and not block.mapped:
            block = self._map(block, min(block.size, size))
        while block is not None and block.size < size:
            space = block.next
            assert space is not None  # _candidate promised that much address space
            block = self._map(space, min(size - block.size, space.size))
        if block is not None:
            pool.remove(block)
        return block

    def unmap(self, block: Block) -> None:
        """Give the whole units inside a free block back to the driver."""
        span = block.expandable
        assert span is not None
        start = span.round_up(block.address)
        end = span.round_down(block.address + block.size)
        if start >= end:
            return
        block.pool.remove(block)
        if start > block.address:
            front = block.cut(start - block.address)
            block.pool.insert(front)
            self._ledger.note_head(front)
        if end < block.address + block.size:
            tail, block = block, block.cut(end - block.address)
            tail.pool.insert(tail)
        self._take_out(block, end - start)

    def _take_out(self, block: Block, nbytes: int) -> None:
        ledger, pool = self._ledger, block.pool
        block.mapped = False
        merge(block, block.previous)
        merge(block, block.next)
        ledger.stats.reserved_bytes.take(nbytes, pool.small)
        ledger.stats.num_device_free += 1
        if block.is_split():
            pool.insert_unmapped(block)
            ledger.note_head(block)
        elif block.expandable is not None:
            self.ranges.remove(block.expandable)
            ledger.drop_head(block)

    def _candidate(self, pool: Pool, size: int) -> Block:
        for space in pool.unmapped_blocks():
            before = space.previous
            start = before if before is not None and not before.allocated else space
            if _free_bytes_from(start, size) >= size:
                return start
        return self._new_range(pool)

    def _new_range(self, pool: Pool) -> Block:
        unit = SMALL_SEGMENT if pool.small else LARGE_SEGMENT
        # PyTorch reserves address space for 1 1/8 of the device's memory.
        capacity = self._ledger.capacity_bytes
        nbytes = -(-(capacity + capacity // 8) // unit) * unit
        span = AddressRange(self._ledger.take_addresses(nbytes), unit)
        block = Block(span.address, nbytes, pool)
        block.mapped, block.expandable = False, span
        self.ranges.add(span)
        self._ledger.note_head(block)
        pool.insert_unmapped(block)
        return block

    def _map(self, space: Block, size: int) -> Block | None:
        """Back the start of `space` with memory; returns the free block it became part of."""
        span, pool, ledger = space.expandable, space.pool, self._ledger
        assert span is not None
        nbytes = -(-size // span.unit) * span.unit
        if nbytes > ledger.mem_get_info()[0]:
            return None
        pool.remove_unmapped(space)
        block = space
        if nbytes < space.size:
            block = space.cut(nbytes)
            pool.insert_unmapped(space)
        block.mapped = True
        merge(block, block.previous)
        merge(block, block.next)
        ledger.note_head(block)
        pool.insert(block)
        ledger.stats.reserved_bytes.add(nbytes, pool.small)
        ledger.stats.num_device_alloc += 1
        return block


def best_fit(pool: Pool, size: int, growing: bool) -> Block | None:
    """The free block PyTorch picks when expandable segments exist.

    While the mode is on (`growing`) a block counts as large as it could grow; while it is off
    again, blocks of such segments are passed over.
    """
    blocks = pool.at_least(size)
    if not growing:
        return next((block for block in blocks if block.expandable is None), None)
    for index, block in enumerate(blocks):
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        if block.expandable is None or following is None:
            return block
        if _size_when_grown(following) >= _size_when_grown(block):
            return block
    return None


def _size_when_grown(block: Block) -> int:
    after = block.next
    return block.size + (after.size if after is not None and not after.mapped else 0)


def _free_bytes_from(block: Block, enough: int) -> int:
    total, current = 0, block
    while total < enough and not current.allocated:
        total += current.size
        if current.next is None:
            break
        current = current.next
    return total

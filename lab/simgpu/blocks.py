"""The pieces of the allocator model: rounding rules, blocks, and the free list of a pool."""

from __future__ import annotations

from bisect import bisect_left, insort

# The constants PyTorch documents for its native CUDA allocator
# (docs "CUDA semantics, memory management" and c10/cuda/CUDACachingAllocator).
KIB, MIB = 1 << 10, 1 << 20
MIN_BLOCK = 512  # every size is rounded up to a multiple of this
SMALL_SIZE = 1 * MIB  # largest request served from the small pool
SMALL_SEGMENT = 2 * MIB  # segment asked of the driver for a small request
LARGE_SEGMENT = 20 * MIB  # segment for a request between SMALL_SIZE and MIN_LARGE
MIN_LARGE = 10 * MIB  # from here on a request gets a segment of its own
ROUND_LARGE = 2 * MIB  # which is rounded up to this


def round_size(nbytes: int) -> int:
    """Bytes a request of `nbytes` occupies in its block."""
    return max(MIN_BLOCK, -(-nbytes // MIN_BLOCK) * MIN_BLOCK)


def segment_size(size: int) -> int:
    """Bytes asked of the driver when no cached block fits a block of `size`."""
    if size <= SMALL_SIZE:
        return SMALL_SEGMENT
    if size < MIN_LARGE:
        return LARGE_SEGMENT
    return -(-size // ROUND_LARGE) * ROUND_LARGE


class Block:
    """A contiguous piece of a segment; neighbours of the same segment are linked."""

    __slots__ = ("address", "size", "pool", "previous", "next", "allocated", "requested")

    def __init__(self, address: int, size: int, pool: Pool) -> None:
        self.address, self.size, self.pool = address, size, pool
        self.previous: Block | None = None
        self.next: Block | None = None
        self.allocated = False
        self.requested = 0

    def is_split(self) -> bool:
        """Whether the block shares its segment with another."""
        return self.previous is not None or self.next is not None

    def cut(self, size: int) -> Block:
        """Take the first `size` bytes off as a new block in front; returns it."""
        front = Block(self.address, size, self.pool)
        front.previous, front.next = self.previous, self
        if front.previous is not None:
            front.previous.next = front
        self.previous = front
        self.address += size
        self.size -= size
        return front


class Pool:
    """The free blocks of the small or of the large requests, ordered by size and address."""

    def __init__(self, small: bool) -> None:
        self.small = small
        self._free: list[tuple[int, int, Block]] = []

    def insert(self, block: Block) -> None:
        """Add a free block."""
        insort(self._free, (block.size, block.address, block))

    def remove(self, block: Block) -> None:
        """Take a free block out."""
        del self._free[bisect_left(self._free, (block.size, block.address, block))]

    def best_fit(self, size: int) -> Block | None:
        """The smallest free block of at least `size` bytes, lowest address first."""
        index = bisect_left(self._free, (size, -1))
        return self._free[index][2] if index < len(self._free) else None

    def blocks(self) -> list[Block]:
        """All free blocks."""
        return [entry[2] for entry in self._free]


def merge(into: Block, other: Block | None) -> int:
    """Join a free neighbour to `into` (which is in no list) and unlist it; returns its bytes."""
    if other is None or other.allocated:
        return 0
    other.pool.remove(other)
    if other.next is into:
        into.address = other.address
        into.previous = other.previous
        if into.previous is not None:
            into.previous.next = into
    else:
        into.next = other.next
        if into.next is not None:
            into.next.previous = into
    into.size += other.size
    return other.size


def chain(head: Block) -> list[Block]:
    """The blocks of a segment in order of address, from its first block."""
    found = [head]
    while (block := found[-1].next) is not None:
        found.append(block)
    return found

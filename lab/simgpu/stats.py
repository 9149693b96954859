"""Counters in the shape PyTorch reports them: current, peak, total in, total out."""

from __future__ import annotations

from dataclasses import dataclass

# Statistics of torch.cuda.memory_stats() kept per pool (documented there).
KEPT = ("allocation", "segment", "inactive_split", "allocated_bytes", "reserved_bytes")
KEPT += ("inactive_split_bytes", "requested_bytes")
# One stream and no pending events: a freed block is inactive at once, so "active" is "allocated".
ALIASES = {"active": "allocation", "active_bytes": "allocated_bytes"}
COUNTS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")
COUNTS += ("num_sync_all_streams",)


@dataclass(slots=True)
class Stat:
    """One counter; `peak` is the largest `current` since the last peak reset.

    `highest` is the same for tests alone: no program resets it.
    """

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0
    highest: int = 0

    def add(self, amount: int) -> None:
        """Count `amount` more."""
        self.current += amount
        self.allocated += amount
        if self.current > self.peak:
            self.peak = self.current
        if self.current > self.highest:
            self.highest = self.current

    def take(self, amount: int) -> None:
        """Count `amount` less."""
        self.current -= amount
        self.freed += amount

    def as_dict(self) -> dict[str, int]:
        """The four figures under PyTorch's names."""
        return {
            "current": self.current,
            "peak": self.peak,
            "allocated": self.allocated,
            "freed": self.freed,
        }


class PoolStat:
    """A statistic kept for the whole device and for the small and the large pool."""

    __slots__ = ("all", "large_pool", "small_pool")

    def __init__(self) -> None:
        self.all, self.large_pool, self.small_pool = Stat(), Stat(), Stat()

    def add(self, amount: int, small: bool) -> None:
        """Count `amount` more in one pool and in the total."""
        self.all.add(amount)
        (self.small_pool if small else self.large_pool).add(amount)

    def take(self, amount: int, small: bool) -> None:
        """Count `amount` less in one pool and in the total."""
        self.all.take(amount)
        (self.small_pool if small else self.large_pool).take(amount)

    def change(self, amount: int, small: bool) -> None:
        """Count a net movement, as one step in or out."""
        if amount > 0:
            self.add(amount, small)
        elif amount < 0:
            self.take(-amount, small)

    def parts(self) -> dict[str, Stat]:
        """The three counters by PyTorch's names."""
        return {"all": self.all, "large_pool": self.large_pool, "small_pool": self.small_pool}


class AllocatorStats:
    """Everything `torch.cuda.memory_stats()` reports of the native allocator."""

    def __init__(self) -> None:
        self.allocation, self.allocated_bytes = PoolStat(), PoolStat()
        self.segment, self.reserved_bytes = PoolStat(), PoolStat()
        self.inactive_split, self.inactive_split_bytes = PoolStat(), PoolStat()
        self.requested_bytes = PoolStat()
        self.num_alloc_retries = 0
        self.num_ooms = 0
        self.num_device_alloc = 0
        self.num_device_free = 0
        self.num_sync_all_streams = 0

    def _each(self) -> list[Stat]:
        return [part for name in KEPT for part in getattr(self, name).parts().values()]

    def reset_peaks(self) -> None:
        """Start every peak again at the current figure, as a program may."""
        for stat in self._each():
            stat.peak = stat.current

    def reset_highest(self) -> None:
        """Start again what tests see of peaks."""
        for stat in self._each():
            stat.highest = stat.current

    def reset_accumulated(self) -> None:
        """Start the in and out totals, the retries and the failures again at zero."""
        for stat in self._each():
            stat.allocated = stat.freed = 0
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0

    def nested(self) -> dict[str, object]:
        """The nested dictionary of `torch.cuda.memory_stats_as_nested_dict()`."""
        found: dict[str, object] = {name: self._nested_stat(name) for name in KEPT}
        found |= {name: self._nested_stat(source) for name, source in ALIASES.items()}
        # Oversize figures only move with max_split_size set, which is not modelled.
        found["oversize_allocations"] = Stat().as_dict()
        found["oversize_segments"] = Stat().as_dict()
        found["max_split_size"] = -1
        for name in COUNTS:
            found[name] = getattr(self, name)
        return found

    def _nested_stat(self, name: str) -> dict[str, dict[str, int]]:
        return {pool: stat.as_dict() for pool, stat in getattr(self, name).parts().items()}

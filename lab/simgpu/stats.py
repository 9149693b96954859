"""Counters as PyTorch reports them: current, peak, sum of allocated, sum of freed."""

from __future__ import annotations

from dataclasses import dataclass

KEPT = ("allocation", "allocated_bytes", "reserved_bytes", "requested_bytes")
# A freed tensor is inactive at once, so "active" is "allocated".
ALIASES = {"active": "allocation", "active_bytes": "allocated_bytes"}
# Of blocks and segments, which are not modelled; `torch.cuda.memory_summary` asks for each.
UNKNOWN = ("segment", "inactive_split", "inactive_split_bytes")


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


class AllocatorStats:
    """What `torch.cuda.memory_stats()` reports that can be told in bytes."""

    def __init__(self) -> None:
        self.allocation, self.allocated_bytes = Stat(), Stat()
        self.reserved_bytes, self.requested_bytes = Stat(), Stat()
        self.num_alloc_retries = 0
        self.num_ooms = 0

    def _each(self) -> list[Stat]:
        return [getattr(self, name) for name in KEPT]

    def reset_peaks(self) -> None:
        """Reset every peak to the current figure, as a program may."""
        for stat in self._each():
            stat.peak = stat.current

    def reset_highest(self) -> None:
        """Reset the peaks that tests see."""
        for stat in self._each():
            stat.highest = stat.current

    def reset_accumulated(self) -> None:
        """Set the sums, the retries and the failures to zero."""
        for stat in self._each():
            stat.allocated = stat.freed = 0
        self.num_alloc_retries = self.num_ooms = 0

    def nested(self) -> dict[str, object]:
        """The nested dictionary of `torch.cuda.memory_stats_as_nested_dict()`."""
        names = {name: name for name in KEPT} | ALIASES
        found: dict[str, object] = {
            name: _pools(getattr(self, source)) for name, source in names.items()
        }
        found |= {name: _pools(Stat()) for name in UNKNOWN}
        return found | {
            "num_alloc_retries": self.num_alloc_retries, "num_ooms": self.num_ooms,
            "oversize_allocations": Stat().as_dict(), "oversize_segments": Stat().as_dict(),
            "max_split_size": -1,
        }


def _pools(stat: Stat) -> dict[str, dict[str, int]]:
    return {"all": stat.as_dict(), "large_pool": stat.as_dict(), "small_pool": Stat().as_dict()}

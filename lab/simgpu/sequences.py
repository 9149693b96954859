"""Sequences of allocations that the model and a real GPU both carry out, to compare figures.

A step is `("take", name, bytes)`, `("free", name)` or `("empty_cache",)`. Sizes are chosen to cross
every rule of the native allocator; none needs more than 200 MiB.
"""

from __future__ import annotations

import random
from typing import Any

from .blocks import KIB, MIB

Step = tuple[Any, ...]


def random_walk(seed: int, steps: int, below_mib: int = 160, top: float = 24.5) -> list[Step]:
    """Takes of up to 2**top bytes and frees at random, below so many MiB in use.

    The same for equal arguments.
    """
    source, walk, live, used = random.Random(seed), [], {}, 0
    for number in range(steps):
        nbytes = int(2 ** source.uniform(4, top))
        if live and (source.random() < 0.45 or used + nbytes > below_mib * MIB):
            name = source.choice(sorted(live))
            used -= live.pop(name)
            walk.append(("free", name))
        else:
            name = f"t{number:04}"
            live[name] = nbytes
            used += nbytes
            walk.append(("take", name, nbytes))
        if number % 97 == 96:
            walk.append(("empty_cache",))
    return walk


SEQUENCES: dict[str, list[Step]] = {
    "one byte takes a small segment": [("take", "a", 1)],
    "small requests share segments": [("take", f"s{n}", 300 * KIB) for n in range(15)],
    "the largest small request": [("take", "a", MIB), ("take", "b", MIB), ("take", "c", MIB)],
    "just above small": [("take", "a", MIB + 1), ("take", "b", 9 * MIB), ("take", "c", 9 * MIB)],
    "below and at ten": [("take", "a", 10 * MIB - 512), ("take", "b", 10 * MIB)],
    "large rounds to two": [("take", "a", 21 * MIB + 1), ("take", "b", 33 * MIB)],
    "a freed block is used again": [
        ("take", "a", 16 * MIB),
        ("free", "a"),
        ("take", "b", 15 * MIB),
        ("free", "b"),
        ("take", "c", 8 * MIB),
        ("take", "d", 6 * MIB),
    ],
    "best fit, split and merge": [
        ("take", "a", 6 * MIB),
        ("take", "b", 6 * MIB),
        ("take", "c", 6 * MIB),
        ("free", "a"),
        ("free", "c"),
        ("take", "d", 5 * MIB),
        ("free", "b"),
        ("free", "d"),
        ("take", "e", 18 * MIB),
    ],
    "empty_cache keeps split segments": [
        ("take", "a", 5 * MIB),
        ("take", "b", 5 * MIB),
        ("take", "c", 40 * MIB),
        ("free", "b"),
        ("free", "c"),
        ("empty_cache",),
        ("free", "a"),
        ("empty_cache",),
    ],
    "a random walk": random_walk(1, 600),
    "another random walk": random_walk(2, 600),
}


def replay(steps: list[Step], device: Any) -> list[Any]:
    """Carry the steps out; what `device.figures()` says after each.

    `device` offers take(nbytes) -> handle, None where there is no room, free(handle),
    empty_cache() and figures().
    """
    live: dict[str, Any] = {}
    seen = []
    for action, *details in steps:
        if action == "take":
            live[details[0]] = device.take(details[1])
        elif action == "free":
            handle = live.pop(details[0])
            if handle is not None:
                device.free(handle)
        else:
            device.empty_cache()
        seen.append(device.figures())
    for handle in live.values():
        if handle is not None:
            device.free(handle)
    device.empty_cache()
    return seen


class LedgerDevice:
    """A ledger as `replay` wants it."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def take(self, nbytes: int) -> Any:
        """Allocate."""
        return self._ledger.malloc(nbytes)

    def free(self, handle: Any) -> None:
        """Give back."""
        self._ledger.free(handle)

    def empty_cache(self) -> None:
        """Give cached segments back to the driver."""
        self._ledger.empty_cache()

    def figures(self) -> tuple[int, int]:
        """Allocated and reserved bytes."""
        return self._ledger.allocated_bytes, self._ledger.reserved_bytes

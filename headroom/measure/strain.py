"""What makes a node slow, besides too little VRAM: spilled VRAM, swap in use, reads from disk."""

import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

from ..base.device import MIB
from ..base.ram import swap_bytes

EACH_SECONDS = 0.25
LEAST_READ = MIB


class Strain(NamedTuple):
    """These figures at one moment, in bytes; None if not known.

    `spilled_bytes`: VRAM of this process that the driver has moved into RAM. `swapped_bytes`: swap
    in use on the machine. `read_bytes`: what this process has read from disk since it began.
    `read_seconds`: how long it has been reading, as far as it was measured.
    """

    spilled_bytes: int | None = None
    swapped_bytes: int | None = None
    read_bytes: int | None = None
    read_seconds: float = 0.0


class Strains:
    """Reads the figures at most four times a second, which takes 0.1 ms on Linux.

    `spilled()`: as in spill.py.
    """

    def __init__(
        self, spilled: Callable[[], int | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spilled, self._clock = spilled, clock
        self._process = psutil.Process()
        self._due = self._at = 0.0
        self._before: int | None = None
        self._read_seconds = 0.0

    def now(self) -> Strain | None:
        """Return the figures; None if they were read a moment ago."""
        at = self._clock()
        if at < self._due:
            return None
        self._due, since, self._at = at + EACH_SECONDS, at - self._at, at
        before, self._before = self._before, self._read()
        # Between prompts nobody reads the figures.
        if before is not None and self._before is not None and since < 4 * EACH_SECONDS:
            self._read_seconds += since * (self._before - before >= LEAST_READ)
        return Strain(self._spilled(), swap_bytes()[0], self._before, self._read_seconds)

    def _read(self) -> int | None:
        counters = getattr(self._process, "io_counters", None)  # macOS has none
        try:
            return None if counters is None else int(counters().read_bytes)
        except (psutil.Error, OSError):
            return None

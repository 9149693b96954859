"""How far past predictions were off: the next ones get so much wider."""

from collections import deque
from typing import NamedTuple

from ..base.device import MIB
from .case import Bounds
from .finding import Saves

MOST = 64
SHARE = 0.9  # of the errors that the range allows for
# What torch's allocator asks the driver for at once, for tensors of 1 to 10 MiB: which of these
# pieces become empty when a model goes cannot be foreseen.
PIECE = 20 * MIB


class Margin(NamedTuple):
    """By how much less, and how much more than predicted a run may save, in bytes."""

    less: int
    more: int


class Errors:
    """The newest errors, as shares of the peak that was to become smaller. Not thread-safe."""

    def __init__(self) -> None:
        self._less: deque[float] = deque(maxlen=MOST)
        self._more: deque[float] = deque(maxlen=MOST)

    def add(self, predicted: Saves, measured_bytes: int, peak_bytes: int) -> None:
        """Take in how applied advice came out."""
        if peak_bytes > 0:
            self._less.append(max(predicted.low - measured_bytes, 0) / peak_bytes)
            self._more.append(max(measured_bytes - predicted.high, 0) / peak_bytes)

    def margin(self, peak_bytes: int) -> Margin:
        """Return the error to expect: as large as most errors were so far, at least PIECE."""
        less, more = _most(self._less) * peak_bytes, _most(self._more) * peak_bytes
        return Margin(max(round(less), PIECE), max(round(more), PIECE))

    def widened(self, saves: Saves, peak_bytes: int) -> Saves:
        """Return a range of what is saved as wide as past errors make it."""
        less, more = self.margin(peak_bytes)
        return Saves(max(saves.low - less, 0), min(saves.high + more, peak_bytes))

    def expected(self, peak: Bounds, before_bytes: int) -> Bounds:
        """Return the same for the peak that is left of one of `before_bytes`."""
        less, more = self.margin(before_bytes)
        return Bounds(max(peak.low - more, 0), peak.high + less)


def _most(errors: deque[float]) -> float:
    if not errors:
        return 0.0
    return sorted(errors)[min(int(SHARE * len(errors)), len(errors) - 1)]

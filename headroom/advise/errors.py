"""How far past predictions were off: the next ones get so much wider."""

from collections import deque

from .finding import Saves

MOST = 64
SHARE = 0.9  # of the errors that the range allows for


class Errors:
    """The newest errors, as shares of the peak that was to become smaller. Not thread-safe."""

    def __init__(self) -> None:
        self._short: deque[float] = deque(maxlen=MOST)
        self._over: deque[float] = deque(maxlen=MOST)

    def add(self, predicted: Saves, measured_bytes: int, peak_bytes: int) -> None:
        """Take in how an applied advice came out."""
        if peak_bytes > 0:
            self._short.append(max(predicted.low - measured_bytes, 0) / peak_bytes)
            self._over.append(max(measured_bytes - predicted.high, 0) / peak_bytes)

    def widened(self, saves: Saves, peak_bytes: int) -> Saves:
        """Return the range as wide as past errors make it."""
        low = saves.low - _most(self._short) * peak_bytes
        return Saves(max(round(low), 0), round(saves.high + _most(self._over) * peak_bytes))


def _most(errors: deque[float]) -> float:
    if not errors:
        return 0.0
    return sorted(errors)[min(int(SHARE * len(errors)), len(errors) - 1)]

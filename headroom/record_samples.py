"""A bounded line of memory readings over a run of any length; peaks are never lost."""

from .record.nodes import Reading

MAX_POINTS = 1000
FIRST_STEP_SECONDS = 0.002


class Samples:
    """Readings over time, at most `max_points`: the longer the run, the wider the steps.

    A point stands for its step and holds the largest figures seen in it.
    """

    def __init__(self, max_points: int = MAX_POINTS, step: float = FIRST_STEP_SECONDS) -> None:
        self._max_points = max_points
        self._step = step
        self.points: list[Reading] = []

    def add(self, reading: Reading) -> None:
        """Add one reading; costs a comparison, and now and then a halving of the line."""
        if self.points and reading.at - self.points[-1].at < self._step:
            self.points[-1] = larger(self.points[-1], reading)
            return
        self.points.append(reading)
        if len(self.points) > self._max_points:
            self._halve()

    def _halve(self) -> None:
        self._step *= 2
        old, self.points = self.points, []
        for reading in old:
            self.add(reading)


def larger(earlier: Reading, later: Reading) -> Reading:
    """Return the earlier moment with the larger of both figures."""
    known = [r.largest_bytes for r in (earlier, later) if r.largest_bytes is not None]
    return Reading(
        earlier.at, max(known, default=None), max(earlier.rss_bytes, later.rss_bytes)
    )

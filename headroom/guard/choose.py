"""Which steps to take after a failure: a way that can be enough, the cheapest or the exact one.

What a step can spare is known before it is taken, so none is taken that cannot help.
"""

from collections.abc import Iterator, Sequence

from ..base.said import said
from .options import Prefer
from .shortage import Shortage

NOTABLE_BYTES = 1 << 20  # every model keeps less than this loaded; nothing is won with it

_BUS_BYTES_PER_SECOND = 12e9  # PCIe 4.0 x16 as measured with pinned memory, less than half of peak
_SECONDS_PER_LAUNCH = 8e-6


class RecoveryStep:
    """One rung of the ladder. `name` says what it would do: "unloading other models"."""

    name = ""
    is_exact = True  # the result stays the same to the bit
    is_spent = False  # it had nothing to give when it was taken
    is_tidying = False  # the tidying up after a failure has done all of it

    def spares(self, shortage: Shortage) -> int | None:
        """Return how many bytes this could spare a repeated call at most, None if nobody can tell.

        0 when nothing (more) can be done here.
        """
        return None

    def seconds(self, shortage: Shortage) -> float:
        """Return what each further call would cost more, by prediction."""
        return 0.0

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        """Do one thing that could let the call succeed, and return it as a phrase.

        None when it turns out that nothing (more) can be done here.
        """
        return None

    def freed_already(self, shortage: Shortage) -> int:
        """Return the bytes that the tidying up after the failed try has freed in this step's name.
        """
        return 0

    def why_not(self, shortage: Shortage) -> str:
        """Return why this was not taken, in a few words."""
        return said("why_not_enough", "not enough")


Way = list[RecoveryStep]


def choose(steps: Sequence[RecoveryStep], shortage: Shortage, prefer: Prefer) -> Way:
    """Return the steps to take at once, in their order; empty when none has anything to do.

    Of the ways that can be enough by estimate, the fastest, or the first exact one. Where nobody
    can tell how much is missing, the first step; where nothing can be enough, all of them. What is
    missing is a lower bound: when a way that could be enough was not, no more half measures.
    """
    left = [step for step in steps if not step.is_spent]
    able = [(step, spared) for step in left if (spared := step.spares(shortage)) != 0]
    missing = shortage.missing_bytes
    if not able:  # what the tidying up may have won is all there is
        in_vain = shortage.tries or shortage.is_hopeless
        return [step for step in left if step.is_tidying and not in_vain][:1]
    if missing is None:
        return [step for step, _ in able[:1]]
    ways = list(_ways(able, shortage, missing))
    if not ways:
        return [step for step, _ in able]
    if prefer == "speed":
        return min(ways, key=lambda way: sum(step.seconds(shortage) for step in way))
    return min(ways, key=lambda way: not all(step.is_exact for step in way))


def _ways(
    able: Sequence[tuple[RecoveryStep, int | None]], shortage: Shortage, missing: int
) -> Iterator[Way]:
    """Yield each step that is enough alone, then the fewest exact ones, the fewest of all.

    When that was not enough: all exact ones while nothing has changed the result, then all.
    """
    exact = [(step, spared) for step, spared in able if step.is_exact]
    if shortage.tries:
        for some in (able,) if shortage.is_changed else (exact, able):
            if _fewest(some, missing):
                yield [step for step, _ in some]
        return
    for step, spared in able:
        if spared is None or spared >= missing:
            yield [step]
    for some in (exact, able):
        way = _fewest(some, missing)
        if len(way) > 1:
            yield way


def _fewest(able: Sequence[tuple[RecoveryStep, int | None]], missing: int) -> Way:
    """Return as many steps from the front as are enough together, none where all are not."""
    total = 0
    for index, (_, spared) in enumerate(able):
        total += spared or 0
        if total >= missing:
            return [step for step, _ in able[: index + 1]]
    return []


def bus_seconds(amount_bytes: float) -> float:
    """Return how long copying so many bytes to a GPU takes, about."""
    return amount_bytes / _BUS_BYTES_PER_SECOND


def launch_seconds(launches: float) -> float:
    """Return how long launching so many kernels takes, about."""
    return launches * _SECONDS_PER_LAUNCH

"""What something adds that is switched on and off, block by block, within one run.

A block is set against the mean of its two neighbours, so that a change in the machine's speed does
not look like a cost. Doing this with something that does nothing shows what the switching adds.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

DRAWS = 1000


def added(runs: Iterable[tuple[bool, Sequence[float]]]) -> dict[str, Any]:
    """Return how much longer a block takes with it than without, in % and in ms.

    `runs`: for each run whether its first block is with it, and the seconds of its blocks, in
    turns with and without.
    """
    pairs = [pair for first_on, seconds in runs for pair in _pairs(first_on, seconds)]
    percents = [100 * (on / off - 1) for on, off in pairs]
    return {
        "plain_ms": median_ms(off for _, off in pairs),
        "added_ms": median_ms(on - off for on, off in pairs),
        "added_percent": round(statistics.median(percents), 2),
        "interval_95_percent": _interval(percents),
        "blocks": len(pairs),
    }


def _pairs(first_on: bool, seconds: Sequence[float]) -> Iterator[tuple[float, float]]:
    """With and without, for each block that has two neighbours."""
    for index in range(1, len(seconds) - 1):
        own, around = seconds[index], (seconds[index - 1] + seconds[index + 1]) / 2
        is_on = (index % 2 == 0) == first_on
        yield (own, around) if is_on else (around, own)


def _interval(values: Sequence[float]) -> list[float]:
    """Where the median lies with 95 % certainty, by drawing from `values` again."""
    import numpy
    from scipy import stats

    drawn = stats.bootstrap((values,), numpy.median, n_resamples=DRAWS, method="percentile",
                            random_state=0)
    return [round(float(end), 2) for end in drawn.confidence_interval]


def median_ms(seconds: Iterable[float]) -> float:
    return round(1000 * statistics.median(seconds), 3)

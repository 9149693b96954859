"""Choose among the options: free what is idle at the highest peak, then at the next highest.

An option that lowers one node may leave another node with the peak. So an option is worth at least
what the peak loses with it alone, and at most what it loses with it beside all others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from . import encoders, float32, idle
from .case import Case, Step, less_by_node, together
from .finding import NOTHING, Bounds, Finding, Gone

MOST = 16
LEAST_SHARE = 0.01  # of the peak: an option that frees less at the peak is skipped
WAYS: tuple[Callable[[Case, Step], Iterator[Finding]], ...] = (
    encoders.options, idle.options, float32.options,
)


def until(case: Case, target_bytes: int) -> list[tuple[Finding, Bounds]]:
    """Return what brings the peak down to `target_bytes`, or as near as possible, step by step.

    Each step comes with the peak to expect after it. At each node, options that do not change the
    picture come first.
    """
    chosen = _chosen(case, target_bytes)
    return [(replace(one, saves=_saves(case, one, chosen)), expected(case, chosen[:number]))
            for number, one in enumerate(chosen, 1)]


def expected(case: Case, chosen: Sequence[Finding]) -> Bounds:
    """Return the peak to expect with all of these options."""
    return case.after(together(*(one.gone for one in chosen)))


def _chosen(case: Case, target_bytes: int) -> list[Finding]:
    chosen: list[Finding] = []
    while case.steps and len(chosen) < MOST and expected(case, chosen).high > target_bytes:
        less = less_by_node(together(*(one.gone for one in chosen)))
        top = max(case.steps, key=lambda step: (
            step.peak.at_least - less.get(step.node_id, NOTHING).high))
        found = _best(case, top, chosen)
        if found is None:
            break
        chosen.append(found)
    return chosen


def _best(case: Case, step: Step, chosen: list[Finding]) -> Finding | None:
    """Return the option that frees most at a node; those that do not change pictures first."""
    known = {one.id for one in chosen}
    gone = together(*(one.gone for one in chosen))

    def gone_at_step(*parts: Gone) -> int:
        return less_by_node(together(*parts)).get(step.node_id, NOTHING).high

    new = [(one, more) for way in WAYS for one in way(case, step) if one.id not in known
           and (more := gone_at_step(gone, one.gone) - gone_at_step(gone))
           > LEAST_SHARE * case.peak_bytes]
    best = max(new, default=None, key=lambda pair: (
        not pair[0].changes_picture, -expected(case, [*chosen, pair[0]]).high, pair[1]))
    return None if best is None else best[0]


def _saves(case: Case, one: Finding, chosen: list[Finding]) -> Bounds:
    alone = case.saved(one.gone)
    others = [other.gone for other in chosen if other is not one]
    rest, everything = case.saved(together(*others)), case.saved(together(*others, one.gone))
    beside = max(everything.high - rest.high, 0)
    return Bounds(alone.low, max(alone.high, beside, alone.low))

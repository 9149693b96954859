"""All findings of one run, the best first; or those that bring its peak down to a size.

What is idle at the highest peak is freed first, then at the next highest: a finding that lowers one
node may leave another node with the peak. The least that a finding saves is how much the peak falls
with it alone; the most is how much it falls with it beside all others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from . import encoders, float32, guard, idle, leftover, settings
from .case import Case, Step, less_by_node, together
from .finding import NOTHING, Bounds, Finding, Gone

LEAST_SHARE = 0.05  # of the peak: a finding that saves less is left out
MOST = 16
LEAST_FREED_SHARE = 0.01  # of the peak: one that frees less at the peak is not chosen
WAYS: tuple[Callable[[Case, Step], Iterator[Finding]], ...] = (
    encoders.options, idle.options, float32.options,
)
SOURCES: tuple[Callable[[Case], list[Finding]], ...] = (
    guard.findings, settings.findings, leftover.findings,
)


def advise(case: Case) -> list[Finding]:
    """Return what is worth changing; a pure function, some milliseconds for a hundred nodes."""
    found = [one for one, _ in until(case, 0)]
    found += [finding for source in SOURCES for finding in source(case)]
    least = LEAST_SHARE * case.peak_bytes
    return sorted((one for one in found if one.saves.high >= least > 0), key=_rank)


def advise_into(case: Case, target_bytes: int, off_bytes: int = 0) -> list[tuple[Finding, Bounds]]:
    """Return what brings the peak down to a size, in the order to apply it.

    Each comes with the peak to expect after it, which may be off by `off_bytes`. If all of them are
    not, or may not be, enough, OOM Guard is last: with it the run continues if memory runs short.
    """
    now = expected(case, [])
    if now.high <= target_bytes:
        return []
    steps = until(case, target_bytes - off_bytes)
    after = steps[-1][1] if steps else now
    if after.high + off_bytes > target_bytes:
        for finding in guard.findings(case, anywhere=True):
            less = Bounds(max(after.low - finding.saves.high, 0), after.high - finding.saves.low)
            steps.append((finding, less))
    return steps


def _rank(one: Finding) -> tuple[object, ...]:
    """Sort key: what failed comes first, then what saves most of the peak, then the rest."""
    is_first, is_last = one.values.get("failed", False), one.values.get("after", False)
    return not is_first, is_last, -(one.saves.low + one.saves.high), one.id


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
    while len(chosen) < MOST and expected(case, chosen).high > target_bytes:
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
           > LEAST_FREED_SHARE * case.peak_bytes]
    best = max(new, default=None, key=lambda pair: (
        not pair[0].changes_picture, -expected(case, [*chosen, pair[0]]).high, pair[1]))
    return None if best is None else best[0]


def _saves(case: Case, one: Finding, chosen: list[Finding]) -> Bounds:
    alone = case.saved(one.gone)
    others = [other.gone for other in chosen if other is not one]
    rest, everything = case.saved(together(*others)), case.saved(together(*others, one.gone))
    beside = max(everything.high - rest.high, 0)
    return Bounds(alone.low, max(alone.high, beside, alone.low))

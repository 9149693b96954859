"""All findings of one run, the best first; or those that bring its peak down to a size."""

from collections.abc import Callable

from . import choice, guard, leftover, settings
from .case import Case
from .finding import Bounds, Finding

LEAST_SHARE = 0.05  # of the peak: a finding that saves less is left out
SOURCES: tuple[Callable[[Case], list[Finding]], ...] = (
    guard.findings, settings.findings, leftover.findings,
)


def advise(case: Case) -> list[Finding]:
    """Return what is worth changing; a pure function, some milliseconds for a hundred nodes."""
    found = [one for one, _ in choice.until(case, 0)]
    found += [finding for source in SOURCES for finding in source(case)]
    least = LEAST_SHARE * case.peak_bytes
    return sorted((one for one in found if one.saves.high >= least > 0), key=_rank)


def advise_into(case: Case, target_bytes: int, off_bytes: int = 0) -> list[tuple[Finding, Bounds]]:
    """Return what brings the peak down to a size, in the order to apply it.

    Each comes with the peak to expect after it, which may be off by `off_bytes`. If all of them are
    not, or may not be, enough, OOM Guard is last: with it the run continues if memory runs short.
    """
    now = choice.expected(case, [])
    if now.high <= target_bytes:
        return []
    steps = choice.until(case, target_bytes - off_bytes)
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

"""What happened on the ladder so far, and the words for it."""

from dataclasses import dataclass, field
from typing import Any

from ..base.device import MIB
from .failure import Failure


@dataclass(frozen=True)
class Attempt:
    """One attempt of a finished recovery: what was done and what it freed."""

    action: str
    freed_mib: float


@dataclass
class Recovery:
    """What happened on the ladder so far; the final error is written from it.

    `untried` are the steps that were never taken, each with the reason.
    """

    failures: list[Failure]
    attempts: list[Attempt] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    @property
    def first(self) -> Failure:
        return self.failures[0]

    @property
    def last(self) -> Failure:
        return self.failures[-1]


def freed_text(amount_mib: float) -> str:
    """Return `amount_mib` as the report of one step says it."""
    return f"{amount_mib:,.1f} MiB" if abs(amount_mib) * MIB >= 1 else "nothing"


def tried_text(recovery: Recovery) -> str:
    """Return the sentence part that lists what was tried, equal steps once with their number."""
    counted: dict[str, list[Any]] = {}
    for step in recovery.attempts:
        entry = counted.setdefault(step.action, [0, 0.0])
        entry[0] += 1
        entry[1] += step.freed_mib
    parts = [
        f"{action}{f' ({times} times)' if times > 1 else ''}: {freed_text(freed)} freed"
        for action, (times, freed) in counted.items()
    ]
    return "; ".join(parts) or "nothing, because no step was allowed or could help"

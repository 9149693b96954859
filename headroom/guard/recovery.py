"""What happened on the ladder so far, and the words for it."""

from dataclasses import dataclass, field
from typing import Any

from ..base.device import MIB
from ..base.said import joined, said
from ..measure.report import mib_text
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
    return mib_text(amount_mib * MIB) if abs(amount_mib) * MIB >= 1 else "nothing"


def tried_text(recovery: Recovery) -> str:
    """Return the sentence part that lists what was tried, equal steps once with their number."""
    counted: dict[str, list[Any]] = {}
    for step in recovery.attempts:
        entry = counted.setdefault(step.action, [0, 0.0])
        entry[0] += 1
        entry[1] += step.freed_mib
    parts = [_tried(action, times, freed) for action, (times, freed) in counted.items()]
    if not parts:
        return said("tried_nothing", "nothing, because no step was allowed or could help")
    return joined("; ", parts)


def _tried(action: str, times: int, freed: float) -> str:
    often = f" ({times} times)" if times > 1 else ""
    text = f"{action}{often}: {freed_text(freed)} freed"
    key = "tried_often" if times > 1 else "tried_once"
    return said(key, text, action=action, times=times, freed_mib=freed)

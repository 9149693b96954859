"""The ladder: retry a call that ran out of memory, one rung at a time, cheapest first.

Independent of ComfyUI and of any model: the call, the steps and the tidying up are given. A
failed try is left completely before anything is freed, because a live exception keeps every
frame's tensors alive.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ..base.device import MIB
from ..measure.journal import note_oom
from ..measure.snapshot import Snapshot, freed_mib, snapshot
from .errors import CANDIDATES, OomGuardError, is_out_of_memory
from .failure import Failure
from .left_out import LeftOut, watching

T = TypeVar("T")


class RecoveryStep(Protocol):
    """One rung of the ladder."""

    def take(self, failure: Failure, tries_left: int) -> str | None:
        """Do one thing that could let the call succeed, and return it as a phrase.

        None when nothing (more) can be done here; the ladder then goes on to the next step.
        """


@dataclass(frozen=True)
class Attempt:
    """One attempt of a finished recovery: what was done and what it freed."""

    action: str
    freed_mib: float


@dataclass
class Recovery:
    """What happened on the ladder so far; the final error is written from it."""

    failures: list[Failure]
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def first(self) -> Failure:
        return self.failures[0]

    @property
    def last(self) -> Failure:
        return self.failures[-1]


class _Done(Generic[T]):
    """The result of a call that did not fail; a class of its own because None is a result."""

    def __init__(self, result: T) -> None:
        self.result = result


@dataclass(frozen=True)
class Ladder:
    """How to recover: the steps in order, how often, and what surrounds every try.

    `before_retry` runs inside each retried call and makes it the very same call (random state,
    options); an out-of-memory error in it counts as a failed try. So does one in `repair`, which
    runs before it where the failed call may have left weights without their LoRA. `tidy` runs
    after every step. `explain` writes the text of the final error.
    """

    steps: Sequence[RecoveryStep]
    max_attempts: int
    tidy: Callable[[], None]
    explain: Callable[[Recovery, Snapshot], str]
    before_retry: Callable[[], None] = lambda: None
    repair: Callable[[], object] = lambda: None
    check_interrupt: Callable[[], None] = lambda: None


_active = threading.local()


def is_recovering() -> bool:
    """Return whether a guarded call is in progress in this thread."""
    return bool(getattr(_active, "depth", 0))


@contextmanager
def _guarding() -> Iterator[None]:
    _active.depth = getattr(_active, "depth", 0) + 1
    try:
        yield
    finally:
        _active.depth -= 1


def guarded(
    call: Callable[[], T], ladder: Callable[[], Ladder], is_outer: bool = False
) -> T:
    """Return `call()`, retried up the ladder while it runs out of memory.

    A call in which ComfyUI left something out because memory ran out has failed as well.
    Inside another guarded call of the same thread this is just `call()`: the outermost ladder
    handles what fails, so guards inside guards do not multiply attempts. A call with `is_outer`
    leaves failures to the guarded calls inside it and climbs only for what fails between them.
    `ladder` is asked for only after a failure. Raises OomGuardError whose
    cause tells of the first failure; every other exception, interrupts included, passes untouched.
    """
    if is_recovering():
        return call()
    with nullcontext() if is_outer else _guarding():
        outcome = _try(call)
        if isinstance(outcome, _Done):
            return outcome.result
        return _recover(call, ladder(), Recovery([outcome]))


def _try(call: Callable[[], T]) -> "_Done[T] | Failure":
    failed: Exception
    with watching() as left_out:
        try:
            result = call()
        except CANDIDATES as error:
            if isinstance(error, OomGuardError) or not is_out_of_memory(error):
                raise
            failed = error
        else:
            if not left_out:
                return _Done(result)
            del result
            failed = LeftOut(left_out[0])
    # Only here, outside the handler, can what the failed call holds be let go of.
    try:
        return Failure.of(failed, snapshot(), is_incomplete=bool(left_out))
    finally:
        del failed


def _recover(call: Callable[[], T], ladder: Ladder, recovery: Recovery) -> T:
    steps = list(ladder.steps)
    is_incomplete = recovery.first.is_incomplete  # until a repair has come to its end

    def again() -> T:
        nonlocal is_incomplete
        if is_incomplete:
            ladder.repair()
            is_incomplete = False
        ladder.before_retry()
        return call()

    while len(recovery.attempts) < ladder.max_attempts:
        ladder.check_interrupt()
        before = snapshot()
        action = _take(steps, recovery.last, ladder.max_attempts - len(recovery.attempts))
        if action is None:
            break
        ladder.tidy()
        freed = freed_mib(before, snapshot())
        recovery.attempts.append(Attempt(action, freed))
        outcome = _try(again)
        recovered = isinstance(outcome, _Done)
        note_oom(len(recovery.attempts), action, freed, recovery.last.text, recovered)
        if isinstance(outcome, _Done):
            return outcome.result
        recovery.failures.append(outcome)
        is_incomplete = is_incomplete or outcome.is_incomplete
    raise _give_up(ladder, recovery) from recovery.first.as_cause()


def _take(steps: list[RecoveryStep], failure: Failure, tries_left: int) -> str | None:
    """Take the first step that has something left to do; drop those that have not."""
    while steps:
        outcome = _try(lambda: steps[0].take(failure, tries_left))
        # A step that itself runs out of memory has nothing more to give.
        if isinstance(outcome, _Done) and outcome.result is not None:
            return outcome.result
        steps.pop(0)
    return None


def _give_up(ladder: Ladder, recovery: Recovery) -> OomGuardError:
    ladder.tidy()
    return OomGuardError(ladder.explain(recovery, recovery.last.memory or snapshot()))


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

"""The ladder: retry a call that ran out of memory, each time after a step that can be enough.

Independent of ComfyUI and of any model: the call, the steps and the tidying up are given. A
failed try is left completely before anything is freed, because a live exception keeps every
frame's tensors alive.
"""

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch

from ..base.device import MIB
from ..base.said import joined, said
from ..measure.journal import note_gave_up, note_oom, note_outcome
from ..measure.snapshot import Snapshot, freed_mib, snapshot
from .choose import RecoveryStep, choose
from .errors import CANDIDATES, OomGuardError, is_out_of_memory
from .failure import Failure
from .left_out import LeftOut, watching
from .options import Prefer
from .recovery import Attempt, Recovery
from .shortage import Shortage, shortage_of

T = TypeVar("T")


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
    after every failure and every step. `used` are the devices of the call's models. `noted` is
    told what every failed try lacked; `needs` gives the bytes that the call as it is tried now
    is known to need at least. `explain` writes the text of the final error.
    """

    steps: Sequence[RecoveryStep]
    max_attempts: int
    tidy: Callable[[], None]
    explain: Callable[[Recovery, Snapshot], str]
    before_retry: Callable[[], None] = lambda: None
    repair: Callable[[], object] = lambda: None
    check_interrupt: Callable[[], None] = lambda: None
    used: Sequence[torch.device] = ()
    prefer: Prefer = "same bits"
    noted: Callable[[Shortage], None] = lambda _: None
    needs: Callable[[], float] = lambda: 0.0


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
    `ladder` is asked for only after a failure. Raises OomGuardError whose cause tells of the
    first failure; every other exception, interrupts included, passes untouched.
    """
    if is_recovering():
        return call()
    with nullcontext() if is_outer else _guarding():
        outcome = _try(call)
        if isinstance(outcome, _Done):
            return outcome.result
        return _Climb(call, ladder(), Recovery([outcome])).recovered()


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
        memory = snapshot()
        gc.collect()  # what the failed call does not hold would pass for something it needs
        return Failure.of(failed, memory, snapshot(), is_incomplete=bool(left_out))
    finally:
        del failed


class _Climb(Generic[T]):
    """One recovery: failures and steps in turn, until the call succeeds or nothing is left."""

    def __init__(self, call: Callable[[], T], ladder: Ladder, recovery: Recovery) -> None:
        self._call = call
        self._ladder = ladder
        self._recovery = recovery
        self._taken: set[int] = set()
        self._tries = 0  # retries after more than a return of memory
        self._is_changed = False  # a step was taken that is not exact
        self._is_incomplete = recovery.first.is_incomplete  # until a repair has come to its end

    def recovered(self) -> T:
        """Return the result of the call, or raise OomGuardError."""
        ladder, recovery = self._ladder, self._recovery
        while len(recovery.attempts) < ladder.max_attempts:
            ladder.check_interrupt()
            attempt = self._attempt()
            if attempt is None:
                break
            recovery.attempts.append(attempt)
            outcome = self._again(attempt)
            if isinstance(outcome, _Done):
                return outcome.result
            recovery.failures.append(outcome)
            self._is_incomplete = self._is_incomplete or outcome.is_incomplete
        raise self._give_up() from recovery.first.as_cause()

    def _again(self, attempt: Attempt) -> "_Done[T] | Failure":
        recovery = self._recovery
        noted = note_oom(
            len(recovery.attempts), attempt.action, attempt.freed_mib, recovery.last.text,
            at=recovery.last.at,
        )
        outcome: _Done[T] | Failure | None = None
        try:
            outcome = _try(self._retried)
        finally:
            note_outcome(noted, isinstance(outcome, _Done))
        return outcome

    def _retried(self) -> T:
        if self._is_incomplete:
            self._ladder.repair()
            self._is_incomplete = False
        self._ladder.before_retry()
        return self._call()

    def _attempt(self) -> Attempt | None:
        """Take the steps that can be enough now; None when nothing (more) can be done."""
        ladder = self._ladder
        ladder.tidy()
        clean = snapshot()
        found = shortage_of(self._recovery.last, ladder.used, clean)
        shortage = replace(
            found.expecting(ladder.needs()), tries=self._tries, is_changed=self._is_changed
        )
        ladder.noted(shortage)
        while chosen := choose(ladder.steps, shortage, ladder.prefer):
            done = self._take(chosen, shortage)
            if done:
                if not all(step.is_tidying for step in chosen):
                    self._tries += 1
                    ladder.tidy()
                garbage = sum(step.freed_already(shortage) for step in chosen) / MIB
                freed = (freed_mib(clean, snapshot()) or 0.0) + garbage
                return Attempt(joined(" and ", done), freed)
        self._recovery.untried = [
            _untried(step.name, step.why_not(shortage))
            for step in ladder.steps if id(step) not in self._taken
        ]
        return None

    def _take(self, chosen: Sequence[RecoveryStep], shortage: Shortage) -> list[str]:
        done = []
        for step in chosen:
            spared = step.spares(shortage)
            action = self._take_one(step, shortage)
            if action is not None:
                done.append(action)
                shortage = shortage.less(spared or 0)
        return done

    def _take_one(self, step: RecoveryStep, shortage: Shortage) -> str | None:
        tries_left = self._ladder.max_attempts - len(self._recovery.attempts)
        self._taken.add(id(step))
        outcome = _try(lambda: step.take(shortage, tries_left))
        self._is_changed = self._is_changed or not step.is_exact
        # A step that itself runs out of memory has nothing more to give.
        action = outcome.result if isinstance(outcome, _Done) else None
        step.is_spent = step.is_spent or action is None
        return action

    def _give_up(self) -> OomGuardError:
        recovery = self._recovery
        self._ladder.tidy()
        text = self._ladder.explain(recovery, recovery.last.memory or snapshot())
        note_gave_up(text)
        return OomGuardError(text)


def _untried(step: str, reason: str) -> str:
    return said("step_and_why", f"{step} ({reason})", step=step, reason=reason)

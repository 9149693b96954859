"""What happens after an out-of-memory error, whatever ran out of it.

`recover(call, options)` runs a call. When it fails:
1. what it held is let go of, memory is tidied, and what was missing is measured (`Lack`);
2. where there was enough, but in pieces or held by garbage, the very same call is tried again;
3. else the next try has another `Plan`: no other model loaded, more room kept free of its own
   weights, or smaller parts; the first that is enough by the measure, none that frees nothing;
4. where nothing is left to change, the error says what was tried and what would help;
5. how it came to its end is remembered: the next call of this kind begins so.

What differs between a sampling step, a VAE, a text encoder and an upscaler is its `Call`.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ..base.device import MIB
from ..base.ram import trim_heap
from ..base.said import joined, said
from ..host.adapter import guard_host, read_from_disk
from ..measure.journal import note_gave_up, note_oom, note_outcome
from ..measure.snapshot import Snapshot, freed_mib, snapshot
from ..models.unload import unload_models
from . import lessons, weights
from .call import Call, Plan
from .errors import OomGuardError
from .explain import Attempt, Recovery, explain, step_and_why
from .failure import Failure
from .lack import Lack, lack_of
from .options import GuardOptions
from .trying import Done, guarding, is_recovering, tidy, try_once

T = TypeVar("T")
Step = Callable[[Plan, Lack], "tuple[Plan, int | None] | None"]
TIDIED = said("returned cached and dead memory")


def recover(
    call: Call[T], options: GuardOptions, plan: Plan | None = None, is_outer: bool = False
) -> T:
    """Return `call.run(plan)`, tried again with other plans while it runs out of memory.

    plan: to begin with; without one, that with which a call of this key came to its end before.
    `is_outer` leaves failures to the guarded calls inside and answers those between them.
    Raises OomGuardError whose cause tells of the first failure; every other exception, interrupts
    included, passes untouched.
    """
    if is_recovering():
        return call.run(plan or Plan())
    with nullcontext() if is_outer else guarding():
        begun = _remembered(call) if plan is None else plan
        outcome = try_once(lambda: call.run(begun))
        if isinstance(outcome, Done):
            return outcome.result
        return _Recovering(call, options, begun, outcome).result()


def _remembered(call: Call[Any]) -> Plan:
    plan: Plan | None = lessons.recall(call.key, call.device)
    if plan is None:
        return Plan()
    words = [TIDIED]
    if plan.alone:
        weights.unload_others(call.patchers, call.device)
        words.append(said("unloaded other models"))
    tidy()
    lessons.note_remembered([*words, *plan.room_words(), *call.cut_words(plan)])
    return plan


class _Recovering(Generic[T]):
    """Failures and other plans in turn, until the call comes to its end or nothing is left."""

    def __init__(
        self, call: Call[T], options: GuardOptions, plan: Plan, failure: Failure
    ) -> None:
        self.call, self.options, self.plan, self.begun = call, options, plan, plan
        self.recovery = Recovery([failure])
        self.room_bytes: int | None = None  # with nothing of the call on the device
        self.missing_bytes: int | None = None  # the last amount known to have been missing
        self.is_changed = False
        self.is_incomplete = failure.is_incomplete  # a weight may be without its LoRA

    def result(self) -> T:
        recovery, guard = self.recovery, guard_host()
        while len(recovery.attempts) < self.options.max_attempts:
            if guard is not None:
                guard.check_interrupt()
            attempt = self.attempt()
            if attempt is None:
                break
            recovery.attempts.append(attempt)
            outcome = self.again(attempt)
            if isinstance(outcome, Done):
                self.learn()
                return outcome.result
            recovery.failures.append(outcome)
            self.is_incomplete = self.is_incomplete or outcome.is_incomplete
        raise self.give_up() from recovery.first.as_cause()

    def attempt(self) -> Attempt | None:
        """Change what can be enough now; None when nothing (more) can be done."""
        tidy()
        clean = snapshot()
        lack = self.lack(clean)
        is_last = len(self.recovery.attempts) + 1 == self.options.max_attempts
        lack = replace(lack, is_last=is_last)
        self.room_bytes = self.room_bytes or lessons.room_bytes(self.call.device)
        if lack.missing_bytes is not None:
            self.missing_bytes = max(lack.missing_bytes, 0) or self.missing_bytes or 0
        is_first = not self.recovery.attempts
        if is_first and (lack.missing_bytes or 0) <= 0:
            return self.tidied(lack)
        words = self.change(lack)
        if words:
            tidy()
            return Attempt(joined(" and ", words), freed_mib(clean, snapshot()) or 0.0)
        if is_first and not lack.is_certain:  # what the tidying has won is all there is
            return self.tidied(lack)
        self.recovery.untried = self.reasons(lack)
        return None

    def lack(self, clean: Snapshot) -> Lack:
        used = [patcher.load_device for patcher in self.call.patchers]
        return lack_of(self.recovery.last, used, clean).at_least(self.call.needs(self.plan))

    def learn(self) -> None:
        """Keep how it came to its end: as it began, with an empty cache, where nothing lacked."""
        if self.missing_bytes is not None:
            plan = self.plan if self.missing_bytes else self.begun
            lessons.learn(self.call.key, plan, self.room_bytes, self.missing_bytes)

    def tidied(self, lack: Lack) -> Attempt:
        if lack.where == "RAM":
            trim_heap()
        return Attempt(TIDIED, lack.garbage_bytes / MIB)

    def change(self, lack: Lack) -> list[str]:
        """Change the plan; return what was done in short phrases, none where nothing can be.

        First what leaves every bit as it is, if it can be enough; with `prefer` = speed smaller
        parts come before its own weights. What is missing is a lower bound: when a change that
        could be enough was not, no more half measures.
        """
        plan, call, options = self.plan, self.call, self.options
        can_cut = call.smaller(plan, lack) is not None
        steps: list[Step] = [self.alone] if options.free_other_models else []
        if options.offload_weights and not (can_cut and options.prefer == "speed"):
            steps.append(call.lighter)
        exact = [step for step in steps if step(plan, lack)]
        enough = _enough(exact, plan, lack)
        cuts = can_cut and not enough
        if not self.is_changed:
            exact = enough if enough or cuts else exact
        for step in exact:
            found = step(plan, lack)
            if found is not None:
                plan, lack = found[0], lack.less(found[1] or 0)
        if cuts:
            plan = call.smaller(plan, lack) or plan
        return self.made(plan, lack) if exact or cuts else []

    def alone(self, plan: Plan, lack: Lack) -> tuple[Plan, int | None] | None:
        spared = weights.other_bytes(self.call.patchers, lack)
        return (replace(plan, alone=True), spared) if spared else None

    def made(self, plan: Plan, lack: Lack) -> list[str]:
        """Make true of `plan` what can be now; the words for all that is new in it."""
        old, self.plan, self.is_changed = self.plan, plan, True
        call, words = self.call, list[str]()

        def do() -> None:
            if plan.alone and (count := weights.unload_others(call.patchers, lack.device)):
                words.append(said("unloaded 1 other model") if count == 1
                             else said("unloaded {count} other models", count=count))
            if plan.room_bytes != old.room_bytes:
                freed = weights.make_room(call.patchers, plan.room_bytes)
                words.extend(plan.room_words() if freed <= 0 else [
                    said("offloaded {freed_mib} of its own weights", freed_mib=freed / MIB)])

        try_once(do)  # where that itself runs out of memory, the call will show whether it helped
        if replace(plan, alone=old.alone, room_bytes=old.room_bytes) != old:
            words += call.cut_words(plan)[-1:]
        return words or [TIDIED]

    def again(self, attempt: Attempt) -> "Done[T] | Failure":
        last = self.recovery.last
        noted = note_oom(len(self.recovery.attempts), attempt.action, attempt.freed_mib,
                         last.text, at=last.at)
        outcome: Done[T] | Failure | None = None
        try:
            outcome = try_once(self.retried)
        finally:
            note_outcome(noted, isinstance(outcome, Done))
        return outcome

    def retried(self) -> T:
        if self.is_incomplete:  # loaded anew, with all of their LoRAs
            unload_models(weights.found(self.call.patchers))
            self.is_incomplete = False
        self.call.reset()
        return self.call.run(self.plan)

    def reasons(self, lack: Lack) -> list[str]:
        """Return what was never done, each with the reason."""
        plan, options, into_ram = self.plan, self.options, lack.where == "RAM"
        found = []
        if options.free_other_models and not plan.alone:
            found.append(step_and_why(
                said("unloading other models"),
                said("the weights would go to RAM") if into_ram
                else said("no other model was loaded there")))
        if options.offload_weights and not plan.room_bytes:
            found.append(step_and_why(
                said("offloading its own weights"),
                said("the weights would go to RAM") if into_ram
                else said("they come from disk whenever they are needed")
                if read_from_disk(self.call.patchers)
                else said("they were in RAM already")))
        return [*found, *self.call.why_whole(plan, lack)]

    def give_up(self) -> OomGuardError:
        tidy()
        last, clean = self.recovery.last, snapshot()
        text = explain(self.call, self.options, self.recovery, last.memory or clean,
                       self.lack(clean))
        note_gave_up(text)
        return OomGuardError(text)


def _enough(steps: Sequence[Step], plan: Plan, lack: Lack) -> list[Step]:
    """Return the fewest of the steps, from the front, that can spare what is missing; or none."""
    total = 0
    for number, step in enumerate(steps, 1):
        found = step(plan, lack)
        if found is not None and (found[1] is None or lack.missing_bytes is None):
            return list(steps[:number])
        total += (found[1] or 0) if found is not None else 0
        if total >= (lack.missing_bytes or 0):
            return list(steps[:number])
    return []

"""What OOM Guard does after an out-of-memory error, for every kind of call.

`recover(call, options)` runs a call. When it fails:
1. what it held is freed, memory is tidied, and what was missing is measured (`Lack`);
2. if there was enough memory, but in pieces or held by garbage, the same call is repeated;
3. else the next attempt has another `Plan`: other models unloaded, more room kept free of its own
   weights, or smaller parts. It takes the first change that is enough, and none that frees nothing;
4. if nothing is left to change, the error says what was tried and what can help;
5. the plan that worked is remembered: the next call of this kind begins with it.

Sampling steps, VAEs, text encoders and upscalers differ only in their `Call`.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ..base.device import MIB
from ..base.ram import trim_heap
from ..base.said import joined, said
from ..host.adapter import guard_host
from ..measure.journal import (
    GaveUp,
    OomAttempt,
    executing_node,
    note,
    note_action,
    note_oom,
    note_outcome,
)
from ..measure.snapshot import Snapshot, freed_mib, snapshot
from ..models.unload import unload_models
from . import lessons, weights
from .attempt import Done, Failure, attempt_once, guarding, is_recovering, tidy
from .call import Call, GuardOptions, Plan
from .errors import OomGuardError
from .explain import explain
from .lack import Lack, lack_of

T = TypeVar("T")
Step = Callable[[Plan, Lack], "tuple[Plan, int | None] | None"]
TIDIED = said("returned cached and unused memory")


def recover(
    call: Call[T], options: GuardOptions, plan: Plan | None = None, is_outer: bool = False
) -> T:
    """Return `call.run(plan)`, repeated with other plans while it runs out of memory.

    plan: the first plan; None: the plan that worked for a call of this key before. is_outer: the
    guarded calls inside handle their own failures; this call handles those between them. Raises
    OomGuardError, whose cause describes the first failure. Every other exception, interrupts
    included, passes unchanged.
    """
    if is_recovering():
        return call.run(plan or Plan())
    with nullcontext() if is_outer else guarding():
        begun = _remembered(call) if plan is None else plan
        outcome = attempt_once(lambda: call.run(begun))
        if isinstance(outcome, Done):
            return outcome.result
        return _Recovering(call, options, begun, outcome).result()


def _remembered(call: Call[Any]) -> Plan:
    plan: Plan | None = lessons.recall(call.key, call.device)
    if plan is None:
        return Plan()
    words: list[str] = [TIDIED]
    if plan.alone:
        weights.unload_others(call.patchers, call.device)
        words.append(said("unloaded other models"))
    tidy()
    words += [*plan.room_words(), *call.cut_words(plan)]
    note_action("guard", 0.0, said("{plan}: remembered from an earlier call",
                                   plan=joined(" and ", words)))
    return plan


class _Recovering(Generic[T]):
    """Changes the plan after each failure, until the call succeeds or nothing is left to change."""

    def __init__(
        self, call: Call[T], options: GuardOptions, plan: Plan, failure: Failure
    ) -> None:
        self.call, self.options, self.plan, self.begun = call, options, plan, plan
        self.failures, self.attempts = [failure], list[OomAttempt]()
        self.room_bytes: int | None = None  # with nothing of the call on the device
        self.missing_bytes: int | None = None  # the last known amount
        self.is_changed = False
        self.is_incomplete = failure.is_incomplete  # a weight may be without its LoRA

    def result(self) -> T:
        guard = guard_host()
        while len(self.attempts) < self.options.max_attempts:
            if guard is not None:
                guard.check_interrupt()
            change = self.changed()
            if change is None:
                break
            outcome = self.again(*change)
            if isinstance(outcome, Done):
                self.learn()
                return outcome.result
            self.failures.append(outcome)
            self.is_incomplete = self.is_incomplete or outcome.is_incomplete
        raise self.give_up() from self.failures[0].as_cause()

    def changed(self) -> tuple[str, float] | None:
        """Change what may be enough now; return what was done and the MiB that this freed.

        None when nothing can be changed.
        """
        tidy()
        clean = snapshot()
        lack = self.lack(clean)
        is_last = len(self.attempts) + 1 == self.options.max_attempts
        lack = replace(lack, is_last=is_last)
        self.room_bytes = self.room_bytes or lessons.room_bytes(self.call.device)
        if lack.missing_bytes is not None:
            self.missing_bytes = max(lack.missing_bytes, 0) or self.missing_bytes or 0
        is_first = not self.attempts
        if is_first and (lack.missing_bytes or 0) <= 0:
            return self.tidied(lack)
        words = self.change(lack)
        if words:
            tidy()
            return joined(" and ", words), freed_mib(clean, snapshot()) or 0.0
        if is_first and not lack.is_certain:  # only tidying has freed something
            return self.tidied(lack)
        return None

    def lack(self, clean: Snapshot) -> Lack:
        used = [patcher.load_device for patcher in self.call.patchers]
        return lack_of(self.failures[-1], used, clean).at_least(self.call.needs(self.plan))

    def learn(self) -> None:
        """Remember the plan that worked; the first plan, if only the cache was in the way."""
        if self.missing_bytes is not None:
            plan = self.plan if self.missing_bytes else self.begun
            lessons.learn(self.call.key, plan, self.room_bytes, self.missing_bytes)

    def tidied(self, lack: Lack) -> tuple[str, float]:
        if lack.where == "RAM":
            trim_heap()
        return TIDIED, lack.garbage_bytes / MIB

    def change(self, lack: Lack) -> list[str]:
        """Change the plan; return short phrases that say what was done, none if nothing can be.

        Changes that keep every bit of the result come first, if they can be enough. With `prefer` =
        speed, smaller parts come before offloading its own weights. What is missing is a lower
        bound: after a change that seemed enough and was not, all that help are made at once.
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
        """Carry out now what `plan` changes; return phrases for all that is new in it."""
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

        attempt_once(do)  # if this runs out of memory too, the call shows whether it helped
        if replace(plan, alone=old.alone, room_bytes=old.room_bytes) != old:
            words += call.cut_words(plan)[-1:]
        return words or [TIDIED]

    def again(self, action: str, freed: float) -> "Done[T] | Failure":
        last = self.failures[-1]
        noted = note_oom(len(self.attempts) + 1, action, freed, last.text, at=last.at)
        self.attempts.append(noted)
        outcome: Done[T] | Failure | None = None
        try:
            outcome = attempt_once(self.next_attempt)
        finally:
            note_outcome(noted, isinstance(outcome, Done))
        return outcome

    def next_attempt(self) -> T:
        if self.is_incomplete:  # to load them again with all of their LoRAs
            unload_models(weights.found(self.call.patchers))
            self.is_incomplete = False
        self.call.reset()
        return self.call.run(self.plan)

    def give_up(self) -> OomGuardError:
        tidy()
        clean = snapshot()
        lack = self.lack(clean)
        text = explain(self.call, self.options, self.failures, self.attempts,
                       self.failures[-1].memory or clean, lack)
        note(GaveUp(*executing_node(), text))
        return OomGuardError(text, lack.is_too_much and self.options.free_other_models)


def _enough(steps: Sequence[Step], plan: Plan, lack: Lack) -> list[Step]:
    """Return the fewest first steps that can free what is missing together; none if they cannot."""
    total = 0
    for number, step in enumerate(steps, 1):
        found = step(plan, lack)
        if found is not None and (found[1] is None or lack.missing_bytes is None):
            return list(steps[:number])
        total += (found[1] or 0) if found is not None else 0
        if total >= (lack.missing_bytes or 0):
            return list(steps[:number])
    return []

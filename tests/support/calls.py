"""Calls whose plans can be changed a number of times, and functions that fail."""

from dataclasses import replace

import torch

from headroom.guard.call import Call, GuardOptions
from headroom.guard.recover import recover

OOM_TEXT = "CUDA out of memory. Tried to allocate 64.00 MiB."


class Changing(Call):
    """Runs `do`; its own weights can go `light` times, and its batch be cut `cuts` times.

    `log` gets the name of every reset and run, in their order.
    """

    words = "computing"

    def __init__(self, do, light=0, cuts=0, log=None, key=None):
        self.do, self.light, self.cuts, self.key = do, light, cuts, key
        self.log = [] if log is None else log
        self.plans = []

    def run(self, plan):
        self.plans.append(plan)
        self.log.append("call")
        return self.do()

    def reset(self):
        self.log.append("same call")

    def lighter(self, plan, lack):
        if plan.room_bytes >= self.light:
            return None
        return replace(plan, room_bytes=plan.room_bytes + 1), None

    def smaller(self, plan, lack):
        parts = self.cuts + 1 if plan.parts is None else plan.parts
        return replace(plan, parts=parts - 1) if parts > 1 else None

    def cut_words(self, plan):
        return [f"cut to {plan.parts}"] if plan.parts else []

    @property
    def changes(self):
        """How each attempt was run: the bytes kept free, and the rows of a part."""
        return [(plan.room_bytes, plan.parts) for plan in self.plans]


class Failing:
    """Runs out of memory in the first `times` calls."""

    def __init__(self, times):
        self.left, self.calls = times, 0

    def __call__(self):
        self.calls += 1
        if self.left > 0:
            self.left -= 1
            raise torch.OutOfMemoryError(OOM_TEXT)
        return "done"


def recovered(do, light=0, cuts=0, attempts=8, is_outer=False, **options):
    """The result of `do`, recovered with that many possible changes."""
    call = do if isinstance(do, Call) else Changing(do, light, cuts)
    return recover(call, GuardOptions(max_attempts=attempts, **options), is_outer=is_outer)

"""Ladders with steps that only note what they did, and calls that fail."""


import torch

from headroom.guard.choose import RecoveryStep
from headroom.guard.ladder import Ladder
from headroom.guard.recovery import tried_text

OOM_TEXT = "CUDA out of memory. Tried to allocate 64.00 MiB."


class Step(RecoveryStep):
    """Notes what is taken; has `times` things to do."""

    def __init__(self, name, log, times=1):
        self.name, self.log, self.times = name, log, times

    def spares(self, shortage):
        return None if self.times else 0

    def take(self, shortage, tries_left):
        if self.times == 0:
            return None
        self.times -= 1
        self.log.append((self.name, tries_left))
        return f"did {self.name}"


def ladder(steps=(), limit=8, **more):
    return lambda: Ladder(
        steps=list(steps), max_attempts=limit, tidy=more.pop("tidy", lambda: None),
        explain=lambda recovery, now: f"gave up: {tried_text(recovery)}", **more,
    )


class Failing:
    """Fails the first `times` calls with `error`."""

    def __init__(self, times, error=None, result="done"):
        self.left, self.error, self.result = times, error, result
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.left > 0:
            self.left -= 1
            raise self.error or torch.OutOfMemoryError(OOM_TEXT)
        return self.result

"""The rungs that need no knowledge of the failed call: dead memory, other models, own weights."""

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..base.ram import trim_heap
from ..host.adapter import current_host, guard_host, return_cache
from ..measure.report import mib_text
from ..models.find import FoundModel
from ..models.unload import loaded_bytes, others, unload_models
from .explain import Subject, explain
from .failure import Failure
from .ladder import Ladder, RecoveryStep

Patchers = Callable[[], Sequence[Any]]

_SPARE = 1.5  # offload this many times what the call asked for: it will ask for more tensors


def tidy() -> None:
    """Collect garbage and return cached memory to the driver, after every rung."""
    guard = guard_host()
    if guard is not None:
        guard.settle_streaming()
    gc.collect()
    return_cache()


def ladder_of(
    subject: Subject, steps: Sequence[RecoveryStep],
    before_retry: Callable[[], None] = lambda: None,
    repair: Callable[[], object] | None = None,
) -> Ladder:
    """Return the ladder of `steps` for one call, with what surrounds every rung.

    Without a `repair` of its own the models of `subject` are unloaded: the call loads them anew.
    """
    guard = guard_host()
    return Ladder(
        steps=steps, max_attempts=subject.options.max_attempts, tidy=tidy,
        explain=explain(subject), before_retry=before_retry,
        repair=repair or (lambda: unload_models(_found(subject.patchers))),
        check_interrupt=guard.check_interrupt if guard is not None else lambda: None,
    )


class ReturnMemory:
    """Rung 1: return cached and dead memory. The tidying up after every rung does the work."""

    def __init__(self) -> None:
        self._done = False

    def take(self, failure: Failure, tries_left: int) -> str | None:
        if self._done:
            return None
        self._done = True
        if failure.where == "RAM":
            trim_heap()
        return "returned cached and dead memory"


class UnloadOthers:
    """Rung 2: unload every model that the failed call does not use.

    Helps nothing when RAM is what ran out, since the weights would go there.
    """

    def __init__(self, in_use: Patchers) -> None:
        self._in_use = in_use
        self._done = False

    def take(self, failure: Failure, tries_left: int) -> str | None:
        if self._done or failure.where == "RAM":
            return None
        self._done = True
        loaded = [model for model in others(_found(self._in_use())) if _model_bytes(model) > 0]
        if not loaded:
            return None
        unload_models(loaded)
        return f"unloaded {len(loaded)} other model{'s' if len(loaded) > 1 else ''}"


class OffloadWeights:
    """Rung 3: offload part of the weights of the models in use, then all that can be streamed.

    With `if_enough` it passes while all the weights together could not make the room that the
    failed call asked for; splitting then comes first and a second step takes its turn after.
    """

    def __init__(self, in_use: Patchers, if_enough: bool = False) -> None:
        self._in_use = in_use
        self._if_enough = if_enough
        self._stage = 0

    def take(self, failure: Failure, tries_left: int) -> str | None:
        guard = guard_host()
        if guard is None or failure.where == "RAM" or self._stage > 1:
            return None
        patchers = list(self._in_use())
        loaded = _weights_bytes(patchers)
        asked = failure.requested_bytes or 0
        if loaded <= 0 or (self._if_enough and asked > loaded + _free_bytes(patchers)):
            return None
        part = max(int(asked * _SPARE), loaded // 4)
        if self._stage == 0 and part > loaded // 2:
            self._stage = 1
        wanted = part if self._stage == 0 else None
        self._stage += 1
        freed = guard.offload_weights(patchers, wanted)
        return f"offloaded {mib_text(freed)} of its own weights" if freed > 0 else None


def _found(patchers: Sequence[Any]) -> list[FoundModel]:
    return [FoundModel("patcher", patcher) for patcher in patchers]


def _model_bytes(model: FoundModel) -> int:
    return _weights_bytes([model.handle])


def _weights_bytes(patchers: Sequence[Any]) -> int:
    host = current_host()
    if host is None:
        return 0
    return sum(loaded_bytes(entry) for entry in host.entries_of(patchers))


def _free_bytes(patchers: Sequence[Any]) -> int:
    host = current_host()
    devices = {patcher.load_device for patcher in patchers}
    if host is None or not devices:
        return 0
    return min(_available(host, device) for device in devices)


def _available(host: Any, device: torch.device) -> int:
    return int(host.available_bytes(device))

"""A CLIP (text encoder) under the OOM Guard: free memory, stream its weights, encode again."""

from collections.abc import Callable
from typing import Any

import torch

from ..base.device import same_device
from ..base.said import said
from ..host.adapter import current_host, guard_host
from ..models.find import FoundModel
from ..models.unload import unload_models
from . import lessons
from .choose import RecoveryStep
from .copies import Guarded, guarded_copy
from .explain import Subject
from .ladder import Ladder, guarded, is_recovering
from .more_room import MoreRoom
from .options import GuardOptions
from .plan import EMPTY, ON_CPU, Plan
from .planned import PlannedCall
from .replay import RandomState
from .shortage import Shortage
from .steps import ReturnMemory, ladder_of

_ALL_BYTES = 1e15  # more than any card has: nothing but what cannot stream is loaded
_SECONDS_ON_CPU = 60.0  # of a large encoder; streaming its weights is always faster


def guard_clip(clip: Any, options: GuardOptions) -> Any:
    """Return a guarded copy of a CLIP with a patcher of its own, as `clone` makes it."""
    return guarded_copy(clip.clone(), GuardedCLIP, options)


class GuardedCLIP(Guarded):
    """The methods of a CLIP that the guard stands before."""

    guard_plan: Plan | None = None  # of the call in progress
    guard_clone: Any = None  # which encodes on the CPU, during such a call

    def clone(self, *args: Any, **kwargs: Any) -> Any:
        """LoRA loaders and others work on a clone: it stays guarded, once."""
        clone = super().clone(*args, **kwargs)  # type: ignore[misc]
        return guarded_copy(clone, GuardedCLIP, self.guard_options)

    def encode_from_tokens(self, *args: Any, **kwargs: Any) -> Any:
        return self._guarded("encode_from_tokens", *args, **kwargs)

    def encode_from_tokens_scheduled(self, *args: Any, **kwargs: Any) -> Any:
        return self._guarded("encode_from_tokens_scheduled", *args, **kwargs)

    def load_model(self, *args: Any, **kwargs: Any) -> Any:
        guard = guard_host()
        if guard is None or self.guard_plan is None or self.guard_plan.room == 1:
            return super().load_model(*args, **kwargs)  # type: ignore[misc]
        patcher: Any = vars(self)["patcher"]
        guard.load_reserving([patcher], _ALL_BYTES)
        return patcher

    def _guarded(self, name: str, *args: Any, **kwargs: Any) -> Any:
        encode = getattr(super(), name)
        if is_recovering():
            return encode(*args, **kwargs)
        clip: Any = self
        length = _length(kwargs.get("tokens", next(iter(args), None)))
        kind = ("encoding", lessons.identity(clip.patcher), length, self.guard_options)
        planned = PlannedCall(kind, clip.patcher.load_device, [clip.patcher])
        plan, state = planned.plan, RandomState()
        self.guard_plan = plan
        began_bytes = 0

        def call() -> Any:
            nonlocal began_bytes
            began_bytes = _loaded_bytes(clip.patcher.load_device)
            if not plan.on_cpu:
                return encode(*args, **kwargs)
            clip.guard_clone = clip.guard_clone or _on_cpu(clip)
            return getattr(clip.guard_clone, name)(*args, **kwargs)

        try:
            result = guarded(call, lambda: _ladder(clip, planned, state, lambda: began_bytes))
        finally:
            self.guard_plan = clip.guard_clone = None
        planned.done()
        return result


class LoadAnew(RecoveryStep):
    """Rung 3 under dynamic VRAM: begin again with none of its own weights on the GPU.

    The embedding comes first, and is by far the largest layer: on an empty device it goes into
    pages, which yield to the layers after it. Where pages of an earlier encoding are in the way it
    comes through a buffer, which keeps that size to the end (UMT5: 2,016 of 2,500 MiB).
    `began` gives the bytes of weights, of any model, that were there when the failed try began.
    """

    name = said("step_offload", "offloading its own weights")

    def __init__(self, plan: Plan, patcher: Any, began: Callable[[], int]) -> None:
        self._plan = plan
        self._patcher = patcher
        self._began = began

    def spares(self, shortage: Shortage) -> int | None:
        host = current_host()
        if host is None or self._plan.empty or not host.is_dynamic(self._patcher):
            return 0
        if not self._began():
            return 0
        is_most = shortage.buffers_bytes * 2 > (shortage.need_bytes or 0)
        return shortage.buffers_bytes if is_most else 0

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        self._plan.empty = True
        unload_models([FoundModel("patcher", self._patcher)])
        return EMPTY

    def why_not(self, shortage: Shortage) -> str:
        return said("why_in_ram", "they were in RAM already")


class EncodeOnCPU(RecoveryStep):
    """The last rung: where a single layer does not fit, the CPU encodes, from RAM."""

    name = said("step_on_cpu", "encoding on the CPU")
    is_exact = False

    def __init__(self, plan: Plan, clip: Any) -> None:
        self._plan = plan
        self._clip = clip

    def spares(self, shortage: Shortage) -> int | None:
        if self._plan.on_cpu or shortage.where == "RAM":
            return 0
        return shortage.need_bytes

    def seconds(self, shortage: Shortage) -> float:
        return _SECONDS_ON_CPU

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        self._clip.guard_clone = _on_cpu(self._clip)
        if self._clip.guard_clone is None:
            return None
        self._plan.on_cpu = True
        return ON_CPU

    def why_not(self, shortage: Shortage) -> str:
        if shortage.where == "RAM":
            return said("why_ram_ran_out", "RAM was what ran out")
        return said("why_host_cannot", "the host cannot do so")


def _length(tokens: Any) -> int:
    """Return how many tokens an encoding has, as ComfyUI's tokenizers give them."""
    lists = tokens.values() if isinstance(tokens, dict) else ()
    return sum(len(part) for parts in lists if isinstance(parts, list)
               for part in parts if isinstance(part, list))


def _loaded_bytes(device: torch.device) -> int:
    """Return the bytes on a device of all that leaves it when models are unloaded."""
    host = current_host()
    if host is None:
        return 0
    entries = [entry for entry in host.loaded_entries() if same_device(entry.device, device)]
    return sum(int(host.unloadable_bytes(entry)) for entry in entries)


def _on_cpu(clip: Any) -> Any | None:
    guard = guard_host()
    return None if guard is None else guard.clip_on_cpu(clip)


def _ladder(
    clip: Any, planned: PlannedCall, state: RandomState, began: Callable[[], int]
) -> Ladder:
    options = clip.guard_options
    steps: list[RecoveryStep] = [ReturnMemory()]
    if options.free_other_models:
        steps.append(planned.unload_others)
    if options.offload_weights:
        steps += [LoadAnew(planned.plan, clip.patcher, began),
                  MoreRoom(planned.plan, clip.patcher), EncodeOnCPU(planned.plan, clip)]
    name = type(clip.cond_stage_model).__name__
    words = said("doing_encoding", f"text encoding with {name}", model=name)
    subject = Subject(words, options, 1, "", [clip.patcher])
    return ladder_of(subject, steps, state.restore, noted=planned.lacked)

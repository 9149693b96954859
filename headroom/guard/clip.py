"""A CLIP (text encoder) under the OOM Guard: free memory, stream its weights, encode again."""

import functools
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
from .copies import GuardedMethod, class_method, guarded_copy, plain_copy
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
    """Return a guarded copy of a CLIP; weights and patcher are shared with the original."""
    return guarded_copy(clip, _METHODS, options)


class _Clone(GuardedMethod):
    """LoRA loaders and others work on a clone, which ComfyUI makes anew: it stays guarded."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return guard_clip(self.unguarded(*args, **kwargs), self.options)


class _Encode(GuardedMethod):
    """`encode_from_tokens` and `encode_from_tokens_scheduled`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_recovering():
            return self.unguarded(*args, **kwargs)
        clip: Any = self.owner
        length = _length(kwargs.get("tokens", next(iter(args), None)))
        kind = ("encoding", lessons.identity(clip.patcher), length, self.options)
        planned = PlannedCall(kind, clip.patcher.load_device, [clip.patcher])
        plan, state = planned.plan, RandomState()
        began_bytes = 0

        @functools.cache  # read from its file again, where it is dynamic
        def on_cpu() -> Any | None:
            guard = guard_host()
            return None if guard is None else guard.clip_on_cpu(plain_copy(clip))

        def call() -> Any:
            nonlocal began_bytes
            began_bytes = _loaded_bytes(clip.patcher.load_device)
            if plan.on_cpu and on_cpu() is None:
                plan.on_cpu = False  # another CLIP of its kind could, which an earlier call taught
            own = on_cpu() if plan.on_cpu else _loading_little(clip) if plan.room > 1 else None
            encode = self.unguarded if own is None else class_method(own, self.name)
            return encode(*args, **kwargs)

        def ladder() -> Ladder:
            rungs = [LoadAnew(plan, clip.patcher, lambda: began_bytes),
                     MoreRoom(plan, clip.patcher), EncodeOnCPU(plan, on_cpu)]
            return _ladder(clip, self.options, planned, state, rungs)

        result = guarded(call, ladder)
        planned.done()
        return result


def _loading_little(clip: Any) -> Any | None:
    """Return a plain copy of a CLIP that loads nothing of its weights that can be streamed."""
    guard = guard_host()
    if guard is None:
        return None
    copied = plain_copy(clip)
    vars(copied)["load_model"] = _LoadLittle(clip.patcher, guard)
    return copied


class _LoadLittle:
    def __init__(self, patcher: Any, guard: Any) -> None:
        self._patcher = patcher
        self._guard = guard

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._guard.load_reserving([self._patcher], _ALL_BYTES)
        return self._patcher


_METHODS = {"clone": _Clone, "encode_from_tokens": _Encode,
            "encode_from_tokens_scheduled": _Encode}


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

    def __init__(self, plan: Plan, on_cpu: Callable[[], Any | None]) -> None:
        self._plan = plan
        self._on_cpu = on_cpu

    def spares(self, shortage: Shortage) -> int | None:
        if self._plan.on_cpu or shortage.where == "RAM":
            return 0
        return shortage.need_bytes

    def seconds(self, shortage: Shortage) -> float:
        return _SECONDS_ON_CPU

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        if self._on_cpu() is None:
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


def _ladder(
    clip: Any, options: GuardOptions, planned: PlannedCall, state: RandomState,
    rungs: list[RecoveryStep],
) -> Ladder:
    steps: list[RecoveryStep] = [ReturnMemory()]
    if options.free_other_models:
        steps.append(planned.unload_others)
    if options.offload_weights:
        steps += rungs
    name = type(clip.cond_stage_model).__name__
    words = said("doing_encoding", f"text encoding with {name}", model=name)
    subject = Subject(words, options, 1, "", [clip.patcher])
    return ladder_of(subject, steps, state.restore, noted=planned.lacked)

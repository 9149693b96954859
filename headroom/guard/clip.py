"""A CLIP (text encoder) under the OOM Guard: free memory, stream its weights, encode again."""

from collections.abc import Callable
from typing import Any

from ..host.adapter import guard_host
from .copies import Guarded, guarded_copy
from .explain import Subject
from .ladder import Ladder, RecoveryStep, guarded, is_recovering
from .options import GuardOptions
from .replay import RandomState
from .steps import ReturnMemory, UnloadOthers, ladder_of
from .tiles import MoreRoom, Plan

_ALL_BYTES = 1e15  # more than any card has: nothing but what cannot stream is loaded


def guard_clip(clip: Any, options: GuardOptions) -> Any:
    """Return a guarded copy of a CLIP with a patcher of its own, as `clone` makes it."""
    return guarded_copy(clip.clone(), GuardedCLIP, options)


class GuardedCLIP(Guarded):
    """The methods of a CLIP that the guard stands before."""

    guard_plan: Plan | None = None  # of the call in progress

    def clone(self, *args: Any, **kwargs: Any) -> Any:
        """LoRA loaders and others work on a clone: it stays guarded, once."""
        clone = super().clone(*args, **kwargs)  # type: ignore[misc]
        return guarded_copy(clone, GuardedCLIP, self.guard_options)

    def encode_from_tokens(self, *args: Any, **kwargs: Any) -> Any:
        encode = super().encode_from_tokens  # type: ignore[misc]
        return self._guarded(lambda: encode(*args, **kwargs))

    def encode_from_tokens_scheduled(self, *args: Any, **kwargs: Any) -> Any:
        encode = super().encode_from_tokens_scheduled  # type: ignore[misc]
        return self._guarded(lambda: encode(*args, **kwargs))

    def load_model(self, *args: Any, **kwargs: Any) -> Any:
        guard = guard_host()
        if guard is None or self.guard_plan is None or self.guard_plan.room == 1:
            return super().load_model(*args, **kwargs)  # type: ignore[misc]
        patcher: Any = vars(self)["patcher"]
        guard.load_reserving([patcher], _ALL_BYTES)
        return patcher

    def _guarded(self, call: Callable[[], Any]) -> Any:
        if is_recovering():
            return call()
        clip: Any = self
        plan, state = Plan(), RandomState()
        self.guard_plan = plan

        def ladder() -> Ladder:
            return _ladder(clip, plan, state)

        try:
            return guarded(call, ladder)
        finally:
            self.guard_plan = None


def _ladder(clip: Any, plan: Plan, state: RandomState) -> Ladder:
    options = clip.guard_options
    steps: list[RecoveryStep] = [ReturnMemory()]
    if options.free_other_models:
        steps.append(UnloadOthers(lambda: [clip.patcher]))
    if options.offload_weights:
        steps.append(MoreRoom(plan, clip.patcher.load_device))
    words = f"text encoding with {type(clip.cond_stage_model).__name__}"
    subject = Subject(words, options, 1, "", [clip.patcher])
    return ladder_of(subject, steps, state.restore)

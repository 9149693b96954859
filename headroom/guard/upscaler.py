"""An UPSCALE_MODEL under the OOM Guard: free memory, fewer images at a time, then smaller tiles."""

from typing import Any

import torch

from ..host.adapter import guard_host
from .copies import Guarded, guarded_copy
from .explain import Subject
from .ladder import Ladder, RecoveryStep, guarded, is_recovering
from .options import GuardOptions
from .replay import RandomState
from .steps import ReturnMemory, UnloadOthers, ladder_of
from .tiles import FewerImages, Plan, SmallerTiles, images_apart, joined

_SMALLEST_TILE = 32
_OVERLAP = 16


def guard_upscaler(descriptor: Any, options: GuardOptions) -> Any:
    """Return a copy of an upscale model (spandrel descriptor) that recovers when it is called.

    The node that uses it halves its own tiles down to 128 pixels; this goes on to 32.
    """
    return guarded_copy(descriptor, GuardedUpscaler, options)


class GuardedUpscaler(Guarded):
    """The methods of a descriptor that the guard stands before."""

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move the network; older nodes do so before they call it."""
        move = super().to  # type: ignore[misc]
        return guarded(lambda: move(*args, **kwargs), lambda: _loading(self))

    def __call__(self, image: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """image: (B, C, H, W); returns (B, C, H * scale, W * scale)."""
        base = super().__call__  # type: ignore[misc]
        if is_recovering():
            return base(image, *args, **kwargs)
        plan, state = Plan(seen=int(image.shape[0])), RandomState()

        def call() -> torch.Tensor:
            if plan.tile is not None:
                return _in_tiles(self, image, plan.tile, lambda tile: base(tile, *args, **kwargs))
            parts = images_apart(image, plan.images)
            return joined([base(part, *args, **kwargs) for part in parts])

        return guarded(call, lambda: _ladder(self, plan, image, state))


def _in_tiles(descriptor: Any, image: torch.Tensor, tile: int, function: Any) -> torch.Tensor:
    guard = guard_host()
    if guard is None:
        result: torch.Tensor = function(image)
        return result
    scaled: torch.Tensor = guard.tiled_scale(
        image, function, tile, min(_OVERLAP, tile // 2), descriptor.scale,
        descriptor.output_channels, image.device,
    )
    return scaled.to(image.dtype)


def _loading(descriptor: Any) -> Ladder:
    options = descriptor.guard_options
    steps: list[RecoveryStep] = [ReturnMemory()]
    if options.free_other_models:
        steps.append(UnloadOthers(lambda: []))
    return ladder_of(Subject("loading an upscale model", options), steps)


def _ladder(descriptor: Any, plan: Plan, image: torch.Tensor, state: RandomState) -> Ladder:
    guard, options = guard_host(), descriptor.guard_options
    patchers = [p for p in [getattr(descriptor, "patcher", None)] if p is not None]
    steps: list[RecoveryStep] = [ReturnMemory()]
    if options.free_other_models:
        steps.append(UnloadOthers(lambda: patchers))
    if options.split_batch:
        steps.append(FewerImages(plan))
    if options.tile_vae:
        steps.append(SmallerTiles(plan, max(image.shape[-2:]), _SMALLEST_TILE))
    size = f"{image.shape[-1]}x{image.shape[-2]}"
    subject = Subject("upscaling", options, image.shape[0], size, patchers, can_tile=True)

    def as_at_first() -> None:
        state.restore()
        if guard is not None:
            guard.revive_dynamic(patchers)

    return ladder_of(subject, steps, as_at_first)

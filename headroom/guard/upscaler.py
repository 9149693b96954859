"""An UPSCALE_MODEL under the OOM Guard: free memory, fewer images at a time, then smaller tiles."""

from typing import Any

import torch

from ..base.said import said
from ..host.adapter import guard_host
from .choose import RecoveryStep
from .copies import GuardedMethod, guarded_copy
from .explain import Subject
from .ladder import Ladder, guarded, is_recovering
from .options import GuardOptions
from .planned import PlannedCall
from .replay import RandomState
from .steps import ReturnMemory, UnloadOthers, ladder_of
from .tiles import FewerImages, SmallerTiles, images_apart, joined

_SMALLEST_TILE = 32
_OVERLAP = 16
_LOADING = said("doing_loading_upscaler", "loading an upscale model")


def guard_upscaler(descriptor: Any, options: GuardOptions) -> Any:
    """Return a copy of an upscale model (spandrel descriptor) that recovers when it is called.

    The node that uses it halves its own tiles down to 128 pixels; this goes on to 32.
    """
    return guarded_copy(descriptor, {"to": _Move, "_call_fn": _Call}, options)


class _Move(GuardedMethod):
    """Move the network; older nodes do so before they call it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        guarded(lambda: self.unguarded(*args, **kwargs), lambda: _loading(self.options))
        return self.owner


class _Call(GuardedMethod):
    """What a descriptor calls its network with, its one attribute that is a function."""

    def __call__(self, model: Any, image: torch.Tensor) -> Any:
        """image: (B, C, H, W); returns (B, C, H * scale, W * scale)."""
        if is_recovering():
            return self.unguarded(model, image)
        kind = ("upscaling", type(model).__name__, tuple(image.shape),
                str(image.dtype), str(image.device), self.options)
        planned = PlannedCall(kind, image.device, _patchers(self.owner))
        plan, state = planned.plan, RandomState()
        plan.seen = int(image.shape[0])
        tiles = SmallerTiles(plan, image.shape[-2:], _SMALLEST_TILE)

        def call() -> torch.Tensor:
            if plan.tile is not None:
                return _in_tiles(self.owner, image, plan.tile,
                                 lambda tile: self.unguarded(model, tile))
            return joined([self.unguarded(model, part)
                           for part in images_apart(image, plan.images)])

        result = guarded(call, lambda: _ladder(self, planned, tiles, image, state))
        planned.done(tiles)
        return result


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


def _loading(options: GuardOptions) -> Ladder:
    steps: list[RecoveryStep] = [ReturnMemory()]
    if options.free_other_models:
        steps.append(UnloadOthers(lambda: []))
    return ladder_of(Subject(_LOADING, options), steps)


def _patchers(descriptor: Any) -> list[Any]:
    patcher = getattr(descriptor, "patcher", None)
    return [] if patcher is None else [patcher]


def _ladder(
    call: GuardedMethod, planned: PlannedCall, tiles: SmallerTiles, image: torch.Tensor,
    state: RandomState,
) -> Ladder:
    guard, options = guard_host(), call.options
    patchers = _patchers(call.owner)
    steps: list[RecoveryStep] = [ReturnMemory()]
    if options.free_other_models:
        steps.append(planned.unload_others)
    if options.split_batch:
        steps.append(FewerImages(planned.plan))
    if options.tile_vae:
        steps.append(tiles)
    size = f"{image.shape[-1]}x{image.shape[-2]}"
    doing = said("doing_upscaling", "upscaling")
    subject = Subject(doing, options, image.shape[0], size, patchers, can_tile=True)

    def as_at_first() -> None:
        state.restore()
        if guard is not None:
            guard.revive_dynamic(patchers)
        planned.begins_again()

    return ladder_of(subject, steps, as_at_first, noted=planned.lacked)

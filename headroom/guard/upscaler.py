"""Guard an UPSCALE_MODEL: free memory, then fewer images at a time, then smaller tiles."""

from dataclasses import replace
from typing import Any

import torch

from ..base.said import said
from ..host.adapter import guard_host
from .call import Call, GuardOptions, Plan
from .copies import GuardedMethod, guarded_copy, plain_copy
from .lack import Lack
from .recover import recover
from .replay import RandomState
from .tiles import fewer_images, images_words, in_parts, smaller_tile

_SMALLEST_TILE = 32
_OVERLAP = 16


def guard_upscaler(descriptor: Any, options: GuardOptions) -> Any:
    """Return a copy of an upscale model (spandrel descriptor) that recovers when it is called.

    The node that uses it halves its own tiles down to 128 pixels; the guard does so down to 32.
    """
    return guarded_copy(descriptor, {"to": _Move, "_call_fn": _Run}, options)


class _Move(GuardedMethod):
    """Move the network; older nodes do so before they call it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recover(_Moving(self, args, kwargs), self.options)
        return self.owner


class _Run(GuardedMethod):
    """Replaces `_call_fn`, the function with which a descriptor calls its network."""

    def __call__(self, model: Any, image: torch.Tensor) -> Any:
        """image: (B, C, H, W); returns (B, C, H * scale, W * scale)."""
        return recover(_Upscaling(self, model, image), self.options)


class _Moving(Call[None]):
    words = said("loading an upscale model")

    def __init__(self, method: GuardedMethod, args: Any, kwargs: dict[str, Any]) -> None:
        self._method, self._args, self._kwargs = method, args, kwargs

    def run(self, plan: Plan) -> None:
        self._method.unguarded(*self._args, **self._kwargs)


class _Upscaling(Call[torch.Tensor]):
    words = said("upscaling")
    can_tile = True

    def __init__(self, method: GuardedMethod, model: Any, image: torch.Tensor) -> None:
        self._method, self._model, self._image = method, model, image
        self._state = RandomState()
        patcher = getattr(method.owner, "patcher", None)
        self.patchers = [] if patcher is None else [patcher]
        self.device, self.batch = image.device, int(image.shape[0])
        self.size = f"{image.shape[-1]}x{image.shape[-2]}"
        scale = getattr(method.owner, "scale", None)  # one class has models of several scales
        self.key = ("upscaling", type(model).__name__, scale, tuple(image.shape), str(image.dtype),
                    str(image.device), method.options)

    def run(self, plan: Plan) -> torch.Tensor:
        if plan.tile is None:
            return in_parts(self._one, self._image, plan.parts)
        guard, owner = guard_host(), self._method.owner
        if guard is None:
            return self._one(self._image)
        # The descriptor pads each tile to a size that its network takes.
        scaled: torch.Tensor = guard.tiled_scale(
            self._image, plain_copy(owner), tile_x=plan.tile, tile_y=plan.tile,
            overlap=min(_OVERLAP, plan.tile // 2), upscale_amount=owner.scale,
            out_channels=owner.output_channels, output_device=self._image.device)
        return scaled.to(self._image.dtype)

    def _one(self, image: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._method.unguarded(self._model, image)
        return result

    def reset(self) -> None:
        self._state.restore()
        guard = guard_host()
        if guard is not None:
            guard.load_again(self.patchers)

    def lighter(self, plan: Plan, lack: Lack) -> tuple[Plan, int | None] | None:
        """Return None: its layers cannot stream their weights."""
        return None

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        options = self._method.options
        if options.split_batch and plan.tile is None:
            images = fewer_images(min(plan.parts or self.batch, self.batch), lack)
            if images is not None and (images or not options.tile_vae):
                return replace(plan, parts=images or 1)
        tile = smaller_tile(self._image.shape[-2:], plan.tile, _SMALLEST_TILE, lack)
        return replace(plan, tile=tile) if tile is not None and options.tile_vae else None

    def cut_words(self, plan: Plan) -> list[str]:
        return images_words(plan, self.batch)

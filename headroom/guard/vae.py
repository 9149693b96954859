"""Guard a VAE: the whole picture first, then fewer images at a time, then smaller tiles."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..base.said import said
from . import lessons, sound, weights
from .attempt import is_recovering
from .call import Call, GuardOptions, Plan
from .copies import GuardedMethod, guarded_copy
from .lack import Lack
from .recover import recover
from .replay import RandomState
from .tiles import fewer_images, images_words, smaller_tile, tile_count
from .vae_call import (
    MOST_OVERLAP,
    can_cut_time,
    can_rely_on_estimate,
    in_a_step,
    in_tiles,
    latent_side,
    takes_tiles,
    tiled_keywords,
    whole,
)

_SMALLEST_TILE = 64  # pixels of the picture: below, the overlaps cost more than the tile
_SMALLEST_LATENT_TILE = 4
_COMFYUI_TILE = {"decode_tiled": 64, "encode_tiled": 512}  # ComfyUI's own where none is asked for
_COMFYUI_VIDEO_TILE = 256  # pixels of the picture
_SHORTER = 0.75  # of the estimate: fewer frames must get below this to help
_PROBABLE = 2  # ComfyUI's estimate for a VAE is seldom more than this times the truth,
_CERTAIN = 4  # and never more than this
# With its own tile size ComfyUI takes this many times less than it estimates, at best (SD1.5's VAE:
# 366 MiB of 1,089). That size is tried if it can fit at all: a guard is not slower than ComfyUI.
_OWN_TILE = 3


def guard_vae(vae: Any, options: GuardOptions) -> Any:
    """Return a copy of a VAE whose decode and encode recover from out-of-memory errors.

    Weights, patcher and settings are shared with the original. Without a failure the results are
    the same; tiles, the last resort, can change a picture slightly.
    """
    names = ("decode", "encode", "decode_tiled", "encode_tiled")
    return guarded_copy(vae, dict.fromkeys(names, _Method), options)


class _Method(GuardedMethod):
    """`decode`, `encode` and their tiled forms, whose tiles become smaller only if they fail."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The first argument: latents (B, C, ...) or pixels (B, ..., channels)."""
        args, is_nested = self.placed(args, kwargs), is_recovering()
        if not args or self.name.endswith("tiled") and (self.own is not None or is_nested):
            return self.unguarded(*args, **kwargs)
        call = _VAECall(self, args[0], args[1:], kwargs)
        return in_a_step(call, self, *args, **kwargs) if is_nested else recover(call, self.options)


class _VAECall(Call[torch.Tensor]):
    """One call of a VAE. A method that another pack has set is called as it is, and never cut."""

    def __init__(
        self, method: GuardedMethod, value: torch.Tensor, args: Any, kwargs: dict[str, Any]
    ) -> None:
        vae, name = method.owner, method.name
        self._method, self._vae, self._value = method, vae, value
        self._args, self._kwargs, self._state = args, kwargs, RandomState()
        self._is_decode = name.startswith("decode")
        self._tiled = "decode_tiled" if self._is_decode else "encode_tiled"
        self._below: int | None = None  # the tile size that the caller asked for
        if name == self._tiled:
            asked = kwargs.get("tile_x") or next(iter(args), None)
            self._below = int(asked or _COMFYUI_TILE[name])
        also = tiled_keywords(method, self._tiled, value, *args, **kwargs)
        self._also = also or {}
        self.seen = 0  # the largest batch that the network was called with
        self.patchers, self.device = [vae.patcher], vae.patcher.load_device
        self.batch = int(value.shape[0])
        self._is_sound = sound.is_sound(vae, value)
        self._shortest = sound.shortest(vae, value, self._is_decode) if self._is_sound else 0
        self.can_tile = also is not None and (
            self._shortest > 0 if self._is_sound else takes_tiles(vae, self._tiled))
        self.key = (name, lessons.identity(vae.patcher), tuple(value.shape), str(self._also),
                    str(value.dtype), method.options, method.own is None)

    @property
    def words(self) -> str:  # type: ignore[override]
        return said(
            "a VAE decode with {model}" if self._is_decode else "a VAE encode with {model}",
            model=type(self._vae.first_stage_model).__name__)

    @property
    def size(self) -> str:  # type: ignore[override]
        sides = () if self._is_sound else reversed(self._sides)
        return "x".join(str(one * self._unit) for one in sides)

    def run(self, plan: Plan) -> torch.Tensor:
        result: torch.Tensor
        if self._below is not None:
            result = in_tiles(self._vae, plan, self._tiled, self._also,
                              self._value, *self._args, **self._kwargs)
        elif plan.tile is not None and not sound.is_cut_by_fallback(self._vae):
            result = in_tiles(self._vae, plan, self._tiled, self._also, self._as_tiled())
        else:
            result = whole(self, plan, self._method, self._value, *self._args, **self._kwargs)
        return result

    def reset(self) -> None:
        self._state.restore()

    def needs(self, plan: Plan) -> float:
        images = 1 if plan.tile else max(1, min(self.seen, plan.parts or self.seen))
        return self._takes(_CERTAIN, plan.tile, plan.frames) * images

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        if self._method.own is not None:
            return None
        options, may_tile = self._method.options, self._method.options.tile_vae
        if options.split_batch and plan.tile is None and self._has_images():
            at_once = self._at_once(plan)
            images = fewer_images(at_once, lack, self._estimate() / _PROBABLE)
            if images is not None and (images or not may_tile):
                return replace(plan, parts=images or 1)
        return self._smaller_tiles(plan, lack) if may_tile and self.can_tile else None

    def _smaller_tiles(self, plan: Plan, lack: Lack) -> Plan | None:
        sides, now = self._sides, plan.tile or self._below
        if self._is_sound:
            tile = smaller_tile(sides, now, self._shortest, lack)
            return None if tile is None else replace(plan, tile=tile)
        step = latent_side(self._vae, self._tiled)
        smallest = max(_SMALLEST_TILE // self._unit, _SMALLEST_LATENT_TILE * step)
        most, is_video = MOST_OVERLAP[self._tiled], self._value.ndim == 5
        own = _COMFYUI_VIDEO_TILE // self._unit if is_video else _COMFYUI_TILE[self._tiled]

        def takes(side: int) -> float:
            return self._takes(_OWN_TILE if side == own else _PROBABLE, side, plan.frames)

        def fitting(lack: Lack) -> int | None:
            return smaller_tile(sides, now, smallest, lack, takes,
                                lambda side: tile_count(sides, side, is_video, most, step))

        tile = fitting(lack)
        if is_video and tile is not None and tile > own:
            # A tile that takes the room of pages of weights loads these again every few frames.
            pages = weights.paged_bytes(self._vae.patcher)
            tile = max(fitting(lack.less(-pages)) or own, own)
        if is_video and (tile is None or tile < own * 3 // 4):
            side = min(now or max(sides), own)
            frames = self._fewer_frames(plan, lack, side, tile is None)
            if frames is not None:
                return replace(plan, tile=tile or side if lack.is_last else side, frames=frames)
        return None if tile is None else replace(plan, tile=tile)

    def _fewer_frames(self, plan: Plan, lack: Lack, side: int, is_left: bool) -> int | None:
        """Return how many frames of tiles of this side fit; None if fewer are no help.

        is_left: nothing else is left, so fewer are tried whatever ComfyUI estimates.
        """
        frames = plan.frames or min(self._value.shape[2], self._also.get("tile_t") or 1 << 30)
        if not self._is_decode or frames < 4 or not can_cut_time(self._vae):
            return None
        now, half = self._estimate(side, frames), self._estimate(side, (frames + 1) // 2)
        if not is_left and not half < now * _SHORTER:
            return None
        while frames >= 4:
            frames = (frames + 1) // 2
            needs = self._takes(_PROBABLE, side, frames)
            if not lack.is_last and (lack.room_bytes is None or needs <= lack.room_bytes):
                break
        return frames

    def cut_words(self, plan: Plan) -> list[str]:
        if self._is_sound and plan.tile is not None:
            part = max(1, min(100, 100 * plan.tile // self._sides[0]))
            return [said("computed in tiles of {part} % of its length", part=part)]
        return images_words(plan, max(self.seen, 1), self._unit)

    def _at_once(self, plan: Plan) -> int:
        return min(plan.parts or self.seen, self.seen)

    @property
    def _unit(self) -> int:
        """How many pixels of the picture, along a side, belong to one of the input."""
        if not self._is_decode:
            return 1
        ratio = self._vae.spacial_compression_decode()
        return max(1, int(ratio)) if isinstance(ratio, (int, float)) else 8

    @property
    def _sides(self) -> tuple[int, ...]:
        """Height and width of the input; a length for sound."""
        count, shape = 1 if self._is_sound else 2, self._value.shape
        return tuple(shape[-count:] if self._is_decode else shape[-1 - count : -1])

    def _has_images(self) -> bool:
        """Return whether dimension 0 counts images that are computed independently.

        SVD's decoder mixes its frames; a video VAE takes this dimension for time when it encodes.
        """
        if self._below is not None:
            return False
        decoder = getattr(self._vae.first_stage_model, "decoder", None)
        if type(decoder).__name__ == "VideoDecoder":
            return False
        not_video = self._also.get("not_video")
        if not_video is None:
            not_video = getattr(self._vae, "not_video", False)
        is_video = getattr(self._vae, "latent_dim", 2) == 3 and not not_video
        return self._is_decode or self._value.ndim == 5 or not is_video

    def _as_tiled(self) -> torch.Tensor:
        """Return the latents of a one-frame video without time, as an image VAE decodes them."""
        value, is_image = self._value, getattr(self._vae, "latent_dim", 2) == 2
        return value[:, :, 0] if self._is_decode and is_image and value.ndim == 5 else value

    def _takes(self, too_much: int, tile: int | None, frames: int | None) -> float:
        """Return what one image takes, if ComfyUI estimates at most `too_much` times that.

        If the network says that its estimate is reliable, this is the estimate itself.
        """
        is_reliable = self._is_decode and can_rely_on_estimate(self._vae)
        return self._estimate(tile, frames) / (1 if is_reliable else too_much)

    def _estimate(self, tile: int | None = None, frames: int | None = None) -> float:
        """Return ComfyUI's estimate for one image, or a tile of it; 0 if it has none.

        tile, frames: sides and time as in the input. Every kind of VAE has a formula of its own.
        """
        vae, shape = self._vae, list(self._value.shape)
        if self._is_decode:
            sides = slice(2, None) if len(shape) == 3 else slice(-2, None)
            takes: Callable[..., float] = vae.memory_used_decode
        else:  # the network has the channels before the sides
            is_video = getattr(vae, "latent_dim", 2) == 3 and len(shape) == 4
            shape = [1, shape[-1], *shape[:-1]] if is_video else [1, shape[-1], *shape[1:-1]]
            sides, takes = slice(-2, None), vae.memory_used_encode
        if tile is not None:
            shape[sides] = [min(side, tile) for side in shape[sides]]
        if frames is not None:
            shape[2] = min(shape[2], frames)
        try:
            return float(takes([1, *shape[1:]], getattr(vae, "vae_dtype", self._value.dtype)))
        except IndexError:
            return 0.0

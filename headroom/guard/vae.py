"""A VAE under the OOM Guard: whole first, then fewer images at a time, then smaller tiles."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..base.said import said
from . import lessons
from .call import Call, Plan
from .copies import GuardedMethod, guarded_copy
from .lack import Lack
from .options import GuardOptions
from .recover import recover
from .replay import RandomState
from .tiles import fewer_images, images_words, smaller_tile, tile_count, why_whole
from .trying import is_recovering
from .vae_call import MOST_OVERLAP, in_tiles, tiled_keywords, whole

_SMALLEST_TILE = 64  # pixels of the picture: below, the overlaps cost more than the tile
_SMALLEST_LATENT_TILE = 4
_SMALLEST_LENGTH = 32  # of a latent with one dimension (audio)
_HOST_TILE = {"decode_tiled": 64, "encode_tiled": 512}  # ComfyUI's own where none is asked for
_HOST_VIDEO_TILE = 256  # pixels of the picture
_PROBABLE = 2  # ComfyUI's estimate of a VAE is hardly so many times what it takes,
_CERTAIN = 4  # and never so many
# ComfyUI's own tile takes so much less at best (SD1.5's VAE: 366 MiB of 1,089): tried where it can
# fit at all, so that the guard is not slower than stock.
_OWN_TILE = 3


def guard_vae(vae: Any, options: GuardOptions) -> Any:
    """Return a copy of a VAE whose decode and encode recover from out-of-memory errors.

    Weights, patcher and settings are shared with the original. Without a failure the results are
    the very same; tiles, the last resort, can change a picture slightly.
    """
    names = ("decode", "encode", "decode_tiled", "encode_tiled")
    return guarded_copy(vae, dict.fromkeys(names, _Method), options)


class _Method(GuardedMethod):
    """`decode` and `encode`; and with tiles, which are smaller than asked for only if they fail."""

    def __call__(self, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """value: latents (B, C, ...) or pixels (B, ..., channels), as for the method without."""
        if is_recovering() or self.name.endswith("tiled") and self.own is not None:
            return self.unguarded(value, *args, **kwargs)
        return recover(_VAECall(self, value, args, kwargs), self.options)


class _VAECall(Call[torch.Tensor]):
    """One call of a VAE. What another pack has set in its place is called as it is, and not cut."""

    def __init__(
        self, method: GuardedMethod, value: torch.Tensor, args: Any, kwargs: dict[str, Any]
    ) -> None:
        vae, name = method.owner, method.name
        self._method, self._vae, self._value = method, vae, value
        self._args, self._kwargs, self._state = args, kwargs, RandomState()
        self._is_decode = name.startswith("decode")
        self._tiled = "decode_tiled" if self._is_decode else "encode_tiled"
        self._below: int | None = None  # the tiles asked for
        if name == self._tiled:
            asked = kwargs.get("tile_x") or next(iter(args), None)
            self._below = int(asked or _HOST_TILE[name])
        self._also = {} if self._below else tiled_keywords(
            method, self._tiled, value, *args, **kwargs)
        self.seen = 0  # the largest batch that the network was called with
        self.patchers, self.device = [vae.patcher], vae.patcher.load_device
        self.batch, self.can_tile = int(value.shape[0]), True
        self.key = (name, lessons.identity(vae.patcher), tuple(value.shape), self._below,
                    str(value.dtype), method.options)

    @property
    def words(self) -> str:  # type: ignore[override]
        return said(
            "a VAE decode with {model}" if self._is_decode else "a VAE encode with {model}",
            model=type(self._vae.first_stage_model).__name__)

    @property
    def size(self) -> str:  # type: ignore[override]
        return "x".join(str(side * self._unit) for side in reversed(self._sides))

    def run(self, plan: Plan) -> torch.Tensor:
        if self._below is not None:
            return self._in_tiles(plan, self._value, *self._args, **self._kwargs)
        if plan.tile is not None:
            return self._in_tiles(plan, self._as_tiled(), **self._also)
        result: torch.Tensor = whole(
            self, plan, self._method, self._value, *self._args, **self._kwargs)
        return result

    def _in_tiles(self, plan: Plan, value: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        result: torch.Tensor = in_tiles(self._vae, plan, self._tiled, value, *args, **kwargs)
        return result

    def reset(self) -> None:
        self._state.restore()

    def needs(self, plan: Plan) -> float:
        images = 1 if plan.tile else max(1, min(self.seen, plan.parts or self.seen))
        return self._estimate(plan.tile) * images / _CERTAIN

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        if self._method.own is not None:
            return None
        options, may_tile = self._method.options, self._method.options.tile_vae
        if options.split_batch and plan.tile is None and self._has_images():
            at_once = self._at_once(plan)
            images = fewer_images(at_once, lack, self._estimate() / _PROBABLE)
            if images is not None and (images or not may_tile):
                return replace(plan, parts=images or 1)
        return self._smaller_tiles(plan, lack) if may_tile else None

    def _smaller_tiles(self, plan: Plan, lack: Lack) -> Plan | None:
        sides, now = self._sides, plan.tile or self._below
        if self._is_decode and len(sides) == 1:
            tile = smaller_tile(sides, now, _SMALLEST_LENGTH, lack)
            return None if tile is None else replace(plan, tile=tile)
        smallest = _SMALLEST_TILE
        if self._is_decode:
            smallest = max(_SMALLEST_LATENT_TILE, _SMALLEST_TILE // self._unit)
        most, is_video = MOST_OVERLAP[self._tiled], self._value.ndim == 5
        own = _HOST_VIDEO_TILE // self._unit if is_video else _HOST_TILE[self._tiled]

        def takes(side: int) -> float:
            return self._estimate(side) / (_OWN_TILE if side == own else _PROBABLE)

        tile = smaller_tile(sides, now, smallest, lack, takes,
                            lambda side: tile_count(sides, side, is_video, most))
        if tile is not None:
            return replace(plan, tile=tile)
        frames = plan.frames or (self._value.shape[2] if is_video and self._is_decode else 1)
        if frames < 4:
            return None
        return replace(plan, tile=plan.tile or smallest, frames=(frames + 1) // 2)

    def cut_words(self, plan: Plan) -> list[str]:
        return images_words(plan, max(self.seen, 1), self._unit)

    def why_whole(self, plan: Plan, lack: Lack) -> list[str]:
        options = self._method.options
        may_split = options.split_batch and self._has_images() and self._below is None
        return why_whole(self._at_once(plan), may_split and plan.parts is None,
                         options.tile_vae and plan.tile is None)

    def _at_once(self, plan: Plan) -> int:
        return min(plan.parts or self.seen, self.seen)

    @property
    def _unit(self) -> int:
        """How many pixels of the picture one of the input stands for, along a side."""
        if not self._is_decode or self._value.ndim == 3:
            return 1
        ratio = self._vae.spacial_compression_decode()
        return max(1, int(ratio)) if isinstance(ratio, (int, float)) else 8

    @property
    def _sides(self) -> tuple[int, ...]:
        """Height and width of the input; a length for audio."""
        shape = self._value.shape
        if not self._is_decode:
            return tuple(shape[-3:-1])
        return tuple(shape[-1:] if len(shape) == 3 else shape[-2:])

    def _has_images(self) -> bool:
        """Return whether dimension 0 counts images that are computed apart.

        SVD's decoder mixes its frames; a video VAE takes the dimension for time when it encodes.
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
        """Return the latents as an image VAE's own decode takes those of a one-frame video."""
        value, is_image = self._value, getattr(self._vae, "latent_dim", 2) == 2
        return value[:, :, 0] if self._is_decode and is_image and value.ndim == 5 else value

    def _estimate(self, tile: int | None = None) -> float:
        """Return ComfyUI's estimate for one image, or a tile of it; 0 where it has none.

        tile: sides as in the input. Every kind of VAE has a formula of its own, for its own shapes.
        """
        vae, shape = self._vae, list(self._value.shape)
        if self._is_decode:
            sides = slice(2, None) if len(shape) == 3 else slice(-2, None)
            estimate: Callable[..., float] = vae.memory_used_decode
        else:  # the network has the channels before the sides
            is_video = getattr(vae, "latent_dim", 2) == 3 and len(shape) == 4
            shape = [1, shape[-1], *shape[:-1]] if is_video else [1, shape[-1], *shape[1:-1]]
            sides, estimate = slice(-2, None), vae.memory_used_encode
        if tile is not None:
            shape[sides] = [min(side, tile) for side in shape[sides]]
        dtype = getattr(vae, "vae_dtype", self._value.dtype)
        try:
            return float(estimate([1, *shape[1:]], dtype))
        except IndexError:
            return 0.0

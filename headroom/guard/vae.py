"""A VAE under the OOM Guard: free memory and decode whole first, then fewer images, then tiles."""

from collections.abc import Callable
from typing import Any

import torch

from ..base.said import said
from ..host.adapter import guard_host
from . import lessons
from .choose import RecoveryStep
from .copies import GuardedMethod, guarded_copy
from .explain import Subject
from .ladder import Ladder, guarded, is_recovering
from .more_room import MoreRoom
from .options import GuardOptions
from .plan import Plan
from .planned import PlannedCall
from .replay import RandomState
from .steps import ReturnMemory, ladder_of
from .tiles import FewerImages, SmallerTiles, tile_count
from .vae_call import MOST_OVERLAP, in_tiles, whole

_SMALLEST_TILE = 64  # pixels of the picture: below, the overlaps cost more than the tile
_SMALLEST_LATENT_TILE = 4
_SMALLEST_LENGTH = 32  # of a latent with one dimension (audio)
_HOST_TILE = 512  # pixels, ComfyUI's own where none is asked for
_HOST_LATENT_TILE = 64
_HOST_VIDEO_TILE = 256  # pixels of the picture
_PESSIMISM = 4  # ComfyUI's estimate of a VAE is never so many times what it takes


def guard_vae(vae: Any, options: GuardOptions) -> Any:
    """Return a copy of a VAE whose decode and encode recover from out-of-memory errors.

    Weights, patcher and settings are shared with the original. Without a failure the results are
    the very same; tiles, the last resort, can change a picture slightly.
    """
    return guarded_copy(vae, _METHODS, options)


class _Decode(GuardedMethod):
    def __call__(self, samples_in: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """samples_in: (B, C, ...) latents; returns (B, ..., channels) pixels."""
        if is_recovering():
            return self.unguarded(samples_in, *args, **kwargs)
        vae = self.owner
        work = _Work(self, samples_in)

        def call() -> Any:
            if work.plan.tile is not None:
                return in_tiles(vae, work.plan, "decode_tiled", _as_decoded(vae, samples_in))
            return whole(self, work.plan, samples_in, *args, **kwargs)

        return work.recovered(call, _images_are_apart(vae))


class _Encode(GuardedMethod):
    def __call__(self, pixel_samples: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """pixel_samples: (B, H, W, channels) or (B, T, H, W, channels); returns latents."""
        if is_recovering():
            return self.unguarded(pixel_samples, *args, **kwargs)
        vae = self.owner
        work = _Work(self, pixel_samples)

        def call() -> Any:
            if work.plan.tile is not None:
                return in_tiles(vae, work.plan, "encode_tiled", pixel_samples)
            return whole(self, work.plan, pixel_samples, *args, **kwargs)

        return work.recovered(call, _batch_is_images(vae, pixel_samples))


class _Tiled(GuardedMethod):
    """`decode_tiled` and `encode_tiled`: the tiles asked for, smaller ones only if they fail."""

    def __call__(self, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """value: latents (B, C, ...) or pixels (B, ..., channels), as for the method without."""
        if is_recovering() or self.own is not None:
            return self.unguarded(value, *args, **kwargs)
        own = _HOST_LATENT_TILE if self.name == "decode_tiled" else _HOST_TILE
        asked = int(kwargs.get("tile_x") or next(iter(args), None) or own)
        work = _Work(self, value, asked)
        return work.recovered(
            lambda: in_tiles(self.owner, work.plan, self.name, value, *args, **kwargs)
        )


_METHODS = {"decode": _Decode, "encode": _Encode, "decode_tiled": _Tiled, "encode_tiled": _Tiled}


class _Work:
    """One call of a VAE: its plan, its tiles and its ladder."""

    def __init__(
        self, method: GuardedMethod, value: torch.Tensor, below: int | None = None
    ) -> None:
        vae, name = method.owner, method.name
        self._vae = vae
        self._options = method.options
        self._is_own = method.own is None
        self._value = value
        self._is_decode = name.startswith("decode")
        device = vae.patcher.load_device
        kind = (name, lessons.identity(vae.patcher), tuple(value.shape), below, str(value.dtype),
                method.options)
        self._planned = PlannedCall(kind, device, [vae.patcher])
        self.plan = self._planned.plan
        self.plan.unit = _compression(vae) if self._is_decode and value.ndim > 3 else 1
        make = _latent_tiles if self._is_decode else _pixel_tiles
        self._tiles = make(vae, self.plan, value, below, self._probably_needs)

    def recovered(self, call: Callable[[], Any], has_images: bool = False) -> Any:
        """Return `call()`, retried while it runs out of memory."""
        state = RandomState()
        result = guarded(call, lambda: self._ladder(state, has_images))
        self._planned.done(self._tiles)
        return result

    def _ladder(self, state: RandomState, has_images: bool) -> Ladder:
        vae, options = self._vae, self._options
        steps: list[RecoveryStep] = [ReturnMemory()]
        if options.free_other_models:
            steps.append(self._planned.unload_others)
        if options.offload_weights:
            steps.append(MoreRoom(self.plan, vae.patcher))
        if options.split_batch and has_images and self._is_own:
            steps.append(FewerImages(self.plan, self._probably_needs))
        if options.tile_vae and self._is_own:
            steps.append(self._tiles)

        def as_at_first() -> None:
            state.restore()
            self._planned.begins_again()

        return ladder_of(self._subject(), steps, as_at_first, noted=self._planned.lacked,
                         needs=self._surely_needs)

    def _subject(self) -> Subject:
        vae, shape = self._vae, self._value.shape
        if self._is_decode:
            sides = [side * _compression(vae) for side in shape[-2:]]
        else:
            sides = list(shape[-3:-1])
        doing = "decode" if self._is_decode else "encode"
        name = type(vae.first_stage_model).__name__
        words = said(f"doing_vae_{doing}", f"a VAE {doing} with {name}", model=name)
        size = "x".join(str(side) for side in reversed(sides))
        return Subject(words, self._options, shape[0], size, [vae.patcher], can_tile=True)


    def _needs(self, tile: int | None = None) -> float:
        """Return ComfyUI's estimate for one image, or a tile of it; 0 where it has none.

        tile: sides as in the input. Every kind of VAE has a formula of its own, for its own shapes.
        """
        vae, shape = self._vae, list(self._value.shape)
        if self._is_decode:
            sides = slice(2, None) if len(shape) == 3 else slice(-2, None)
            estimate = vae.memory_used_decode
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

    def _probably_needs(self, tile: int | None = None) -> float:
        """Return what one image or tile takes; half of it is surely enough where this is not."""
        return self._needs(tile) / 2

    def _surely_needs(self) -> float:
        """Return what the call as it is tried now takes at least."""
        plan = self.plan
        images = max(1, min(plan.seen, plan.images or plan.seen)) if plan.tile is None else 1
        return self._needs(plan.tile) * images / _PESSIMISM


def _latent_tiles(
    vae: Any, plan: Plan, samples: torch.Tensor, below: int | None,
    needs: Callable[[int], float],
) -> SmallerTiles:
    """Return the tile rung for latents (B, C, [T,] [H,] W), in latent pixels."""
    if samples.ndim == 3:
        return SmallerTiles(plan, samples.shape[-1:], _SMALLEST_LENGTH)
    smallest = max(_SMALLEST_LATENT_TILE, _SMALLEST_TILE // _compression(vae))
    frames = samples.shape[2] if samples.ndim == 5 else 1
    is_video = samples.ndim == 5
    own = _HOST_VIDEO_TILE // _compression(vae) if is_video else _HOST_LATENT_TILE
    sides = samples.shape[-2:]

    def count(tile: int) -> int:
        return tile_count(sides, tile, is_video, MOST_OVERLAP["decode_tiled"])

    def quiet(room_bytes: int) -> int | None:
        """A video's tile comes through the network once for every few frames of it."""
        guard = guard_host() if is_video else None
        return None if guard is None else guard.undisturbing_bytes(vae.patcher, room_bytes)

    return SmallerTiles(plan, sides, smallest, below, frames, needs, own, count, quiet)


def _pixel_tiles(
    vae: Any, plan: Plan, pixels: torch.Tensor, below: int | None,
    needs: Callable[[int], float],
) -> SmallerTiles:
    """Return the tile rung for pixels (B, [T,] H, W, channels)."""
    own = _HOST_VIDEO_TILE if pixels.ndim == 5 else _HOST_TILE
    sides = pixels.shape[-3:-1]

    def count(tile: int) -> int:
        return tile_count(sides, tile, pixels.ndim == 5, MOST_OVERLAP["encode_tiled"])

    return SmallerTiles(
        plan, sides, _SMALLEST_TILE, below, needs=needs, own=own, count=count
    )


def _compression(vae: Any) -> int:
    """Return how many pixels a latent pixel stands for along one side."""
    ratio = vae.spacial_compression_decode()
    return max(1, int(ratio)) if isinstance(ratio, (int, float)) else 8


def _as_decoded(vae: Any, samples: torch.Tensor) -> torch.Tensor:
    """Return the latents as an image VAE's own decode takes those of a one-frame video."""
    is_video = getattr(vae, "latent_dim", 2) == 2 and samples.ndim == 5
    return samples[:, :, 0] if is_video else samples


def _images_are_apart(vae: Any) -> bool:
    """Return whether images of a batch are decoded apart; SVD's decoder mixes its frames."""
    decoder = getattr(vae.first_stage_model, "decoder", None)
    return type(decoder).__name__ != "VideoDecoder"


def _batch_is_images(vae: Any, pixels: torch.Tensor) -> bool:
    """Return whether dimension 0 of `pixels` counts images; a video VAE takes it for time."""
    is_video = getattr(vae, "latent_dim", 2) == 3 and not getattr(vae, "not_video", False)
    return _images_are_apart(vae) and (pixels.ndim == 5 or not is_video)

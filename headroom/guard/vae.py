"""A VAE under the OOM Guard: free memory and decode whole first, then fewer images, then tiles."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .copies import Guarded, guarded_copy
from .explain import Subject
from .ladder import Ladder, RecoveryStep, guarded, is_recovering
from .options import GuardOptions
from .replay import RandomState
from .steps import ReturnMemory, UnloadOthers, ladder_of
from .tiles import FewerImages, MoreRoom, Plan, SmallerTiles
from .vae_call import in_tiles, whole

_SMALLEST_TILE = 64  # pixels of the picture: below, the overlaps cost more than the tile
_SMALLEST_LATENT_TILE = 4
_SMALLEST_LENGTH = 32  # of a latent with one dimension (audio)
_LARGEST_TILE = 1024  # in pixels; larger ones are a whole picture to most cards


def guard_vae(vae: Any, options: GuardOptions) -> Any:
    """Return a copy of a VAE whose decode and encode recover from out-of-memory errors.

    Weights, patcher and settings are shared with the original. Without a failure the results are
    the very same; tiles, the last resort, can change a picture slightly.
    """
    return guarded_copy(vae, GuardedVAE, options)


class GuardedVAE(Guarded):
    """The methods of a VAE that the guard stands before."""

    def decode(self, samples_in: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """samples_in: (B, C, ...) latents; returns (B, ..., channels) pixels."""
        if is_recovering():
            return super().decode(samples_in, *args, **kwargs)  # type: ignore[misc]
        plan = Plan()

        def call() -> Any:
            if plan.tile is not None:
                return in_tiles(self, plan, "decode_tiled", _as_decoded(self, samples_in))
            return whole(self, plan, "decode", samples_in, *args, **kwargs)

        steps = [FewerImages(plan)] if _images_are_apart(self) else []
        tiles = _latent_tiles(self, plan, samples_in, _LARGEST_TILE)
        return _recovering(self, "decode", call, plan, steps, tiles, samples_in.shape[2:],
                         samples_in.shape[0])

    def encode(self, pixel_samples: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """pixel_samples: (B, H, W, channels) or (B, T, H, W, channels); returns latents."""
        if is_recovering():
            return super().encode(pixel_samples, *args, **kwargs)  # type: ignore[misc]
        plan = Plan()

        def call() -> Any:
            if plan.tile is not None:
                return in_tiles(self, plan, "encode_tiled", pixel_samples)
            return whole(self, plan, "encode", pixel_samples, *args, **kwargs)

        steps = [FewerImages(plan)] if _batch_is_images(self, pixel_samples) else []
        tiles = _pixel_tiles(plan, pixel_samples, _LARGEST_TILE)
        return _recovering(self, "encode", call, plan, steps, tiles, pixel_samples.shape[1:-1],
                         pixel_samples.shape[0])

    def decode_tiled(self, samples: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """samples: (B, C, ...) latents; the tiles asked for, and smaller ones only if they fail."""
        if is_recovering():
            return super().decode_tiled(samples, *args, **kwargs)  # type: ignore[misc]
        plan = Plan()
        asked = kwargs.get("tile_x") or next(iter(args), None) or _LARGEST_TILE
        return _recovering(
            self, "decode", lambda: in_tiles(self, plan, "decode_tiled", samples, *args, **kwargs),
            plan, [], _latent_tiles(self, plan, samples, int(asked) * _compression(self)),
            samples.shape[2:], samples.shape[0],
        )

    def encode_tiled(self, pixel_samples: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """pixel_samples: (B, ..., channels); the tiles asked for, smaller if they fail."""
        if is_recovering():
            return super().encode_tiled(pixel_samples, *args, **kwargs)  # type: ignore[misc]
        plan = Plan()
        asked = kwargs.get("tile_x") or next(iter(args), None) or _LARGEST_TILE
        return _recovering(
            self, "encode",
            lambda: in_tiles(self, plan, "encode_tiled", pixel_samples, *args, **kwargs),
            plan, [], _pixel_tiles(plan, pixel_samples, int(asked)),
            pixel_samples.shape[1:-1], pixel_samples.shape[0],
        )


def _recovering(
    vae: Any, doing: str, call: Callable[[], Any], plan: Plan, images: Sequence[RecoveryStep],
    tiles: RecoveryStep, shape: Sequence[int], batch: int,
) -> Any:
    state, options = RandomState(), vae.guard_options

    def ladder() -> Ladder:
        steps: list[RecoveryStep] = [ReturnMemory()]
        if options.free_other_models:
            steps.append(UnloadOthers(lambda: [vae.patcher]))
        if options.offload_weights:
            steps.append(MoreRoom(plan, vae.patcher.load_device))
        if options.split_batch:
            steps.extend(images)
        if options.tile_vae:
            steps.append(tiles)
        size = "x".join(str(side) for side in reversed(shape))
        unit = " in latent pixels" if doing == "decode" else ""
        words = f"a VAE {doing} with {type(vae.first_stage_model).__name__}"
        subject = Subject(words, options, batch, f"{size}{unit}", [vae.patcher], can_tile=True)
        return ladder_of(subject, steps, state.restore)

    return guarded(call, ladder)


def _latent_tiles(vae: Any, plan: Plan, samples: torch.Tensor, largest: int) -> SmallerTiles:
    """Return the tile rung for latents (B, C, [T,] [H,] W), in latent pixels."""
    if samples.ndim == 3:
        return SmallerTiles(plan, samples.shape[-1], _SMALLEST_LENGTH)
    ratio = _compression(vae)
    smallest = max(_SMALLEST_LATENT_TILE, _SMALLEST_TILE // ratio)
    side = min(max(samples.shape[-2:]), largest // ratio)
    frames = samples.shape[2] if samples.ndim == 5 else 1
    return SmallerTiles(plan, side, smallest, frames)


def _pixel_tiles(plan: Plan, pixels: torch.Tensor, largest: int) -> SmallerTiles:
    """Return the tile rung for pixels (B, [T,] H, W, channels)."""
    side = min(max(pixels.shape[-3:-1]), largest)
    return SmallerTiles(plan, side, _SMALLEST_TILE)


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

"""Call a copy of a VAE, whole or in tiles, without ComfyUI's own fallback to tiles.

After an out-of-memory error ComfyUI's `decode` and `encode` compute in tiles at once, which can be
as large as the picture. On the copy this fallback raises an error instead. So OOM Guard can free
memory and attempt the whole picture again first.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..host.adapter import return_cache
from . import sound
from .attempt import Done, attempt_once
from .call import Plan
from .copies import GuardedMethod, class_method, plain_copy
from .errors import CANDIDATES, TORCH_OOM, NotBegunError, is_out_of_memory
from .tiles import in_parts, overlap_of

MOST_OVERLAP = {"decode_tiled": 16, "encode_tiled": 64}  # of pictures, as ComfyUI's own tiles


class _WantsTiles(Exception):
    """ComfyUI wanted to use tiles. It handles only out-of-memory errors, so this one gets out."""


# All methods that ComfyUI's `decode` and `encode` fall back to.
_FALLBACKS = [f"{name}_{how}" for name in ("decode_tiled", "encode_tiled")
              for how in ("", "1d", "3d")] + ["_decode_tiled_owned", "_encode_tiled_owned"]


def _no_tiles(*args: Any, **kwargs: Any) -> Any:
    raise _WantsTiles


class _Watched:
    """Replaces `first_stage_model` in one call; notes the largest batch and the error it raises.

    refuses: its first call fails, so that ComfyUI cuts sound.
    """

    def __init__(self, model: Any, call: Any, refuses: bool = False) -> None:
        self._model = model
        self._call = call
        self._refuses = refuses
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def decode(self, samples: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._run(self._model.decode, samples, *args, **kwargs)

    def encode(self, pixels: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._run(self._model.encode, pixels, *args, **kwargs)

    def _run(self, function: Callable[..., Any], value: Any, *args: Any, **kwargs: Any) -> Any:
        self._call.seen = max(self._call.seen, int(value.shape[0]))
        if self._refuses:
            self._refuses = False
            raise TORCH_OOM("out of memory: this sound is computed in tiles")
        try:
            return function(value, *args, **kwargs)
        except CANDIDATES as error:
            if not is_out_of_memory(error):
                raise
            self.error = error
        raise _WantsTiles


def whole(
    call: Any, plan: Plan, method: GuardedMethod, value: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Return the result of `method` for `value`, in parts of the plan's images, without tiles.

    Raises the out-of-memory error after which ComfyUI would use tiles. A method that another pack
    has set is called as it is. `call.seen` becomes the largest batch. With `plan.tile`: of sound
    that only ComfyUI's fallback can cut.
    """
    if method.own is not None:
        return method.own(value, *args, **kwargs)

    def one(part: torch.Tensor) -> torch.Tensor:
        vae, tile = method.owner, plan.tile
        shape = partial(_tile_shape, vae, method.name, given={"tile_x": tile})
        work = _work_copy(vae, plan, shape if tile else None)
        vars(work).update(dict.fromkeys(_FALLBACKS, _no_tiles))
        watched = work.first_stage_model = _Watched(vae.first_stage_model, call, bool(tile))
        if tile:
            sound.set_tile(work, method.name, tile)
        try:
            result: torch.Tensor = class_method(work, method.name)(part, *args, **kwargs)
            return result
        except _WantsTiles:
            pass
        raise watched.error or _before_it_computed(work, method.name, part, call)

    return in_parts(one, value, plan.parts)


def in_a_step(call: Any, method: GuardedMethod, *args: Any, **kwargs: Any) -> Any:
    """Return the result of a call in a step of a guarded sampling, which handles failures.

    ComfyUI makes tiles after the first failure and nobody hears of it. So the whole is attempted
    once more before.
    """
    outcome = attempt_once(lambda: call.run(Plan()))
    if isinstance(outcome, Done):
        return outcome.result
    return_cache()
    call.reset()
    return method.unguarded(*args, **kwargs)


def _before_it_computed(vae: Any, name: str, part: torch.Tensor, call: Any) -> Exception:
    """Return the error for a network that was not called: ComfyUI refused, or had no room.

    Newer ComfyUIs do not begin if a reliable estimate is larger than the free memory.
    """
    if name == "decode" and can_rely_on_estimate(vae):
        expected = int(vae.memory_used_decode(part.shape, vae.vae_dtype))
        if expected > vae.patcher.get_free_memory(vae.patcher.load_device):
            call.seen = max(call.seen, int(part.shape[0]))
            return NotBegunError(f"ComfyUI did not begin: its estimate requested {expected} bytes")
    return TORCH_OOM("out of memory before the VAE computed: no room for all")


def can_rely_on_estimate(vae: Any) -> bool:
    """Return whether the network says that its estimate for a decode is reliable (measured)."""
    return bool(getattr(vae.first_stage_model, "comfy_decode_estimate_is_reliable", False))


def owns_tiling(vae: Any) -> bool:
    """Return whether the network makes its tiles itself; it then also decides how to cut time."""
    return bool(getattr(vae, "handles_tiling", False))


def can_cut_time(vae: Any) -> bool:
    """Return whether ComfyUI can cut a decode in time: it counts as many frames for each latent.

    For TAEHV of MiniMax H3, of which 5 latents are 17 frames, it also counts 4. Networks that tile
    by themselves decide it.
    """
    ratio, added = vae.upscale_ratio, vae.upscale_index_formula
    is_even = added is not None and ratio[0](3) - ratio[0](2) == added[0]
    return is_even and not owns_tiling(vae)


def takes_tiles(vae: Any, name: str) -> bool:
    """Return whether a network that tiles by itself takes the size of tiles from outside."""
    tiled = getattr(type(vae.first_stage_model), name, None)
    return not owns_tiling(vae) or tiled is None or "tile_x" in inspect.signature(tiled).parameters


def latent_side(vae: Any, name: str) -> int:
    """Return how many elements of the input, along a side, belong to one latent: 1 for a decode.

    ComfyUI puts a tile that begins within a latent in a wrong place, and some networks refuse it.
    """
    return int(vae.spacial_compression_encode()) if name.startswith("encode") else 1


def in_tiles(
    vae: Any, plan: Plan, name: str, asked: dict[str, Any], value: torch.Tensor, *args: Any,
    **kwargs: Any,
) -> Any:
    """Return `vae.<name>(value, ...)` for a method that tiles, with the plan's tiles if any.

    name: `decode_tiled` or `encode_tiled`. asked: the other arguments by name (tile_x, tile_y,
    overlap ...); args, kwargs: the same as the caller passed them.
    """
    given = dict(asked)
    if plan.tile is not None:
        overlap = overlap_of(plan.tile, MOST_OVERLAP[name], value.ndim != 4, latent_side(vae, name))
        given.update(tile_x=plan.tile, tile_y=plan.tile, overlap=overlap)
    if plan.frames is not None:
        given.update(tile_t=plan.frames, overlap_t=max(1, plan.frames // 4))
    work = _work_copy(vae, plan, lambda shape: _tile_shape(vae, name, shape, given))
    if plan.tile is None:
        return class_method(work, name)(value, *args, **kwargs)
    return class_method(work, name)(value, **given)


def _tile_shape(vae: Any, name: str, shape: Any, given: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of one tile of `shape` (B, C, ..., sides), of latents or of pixels."""
    found, tile, frames = list(shape), given.get("tile_x"), given.get("tile_t")
    sides = 1 if len(found) == 3 or getattr(vae, "extra_1d_channel", None) is not None else 2
    if tile is not None:
        found[-sides:] = [min(side, tile) for side in found[-sides:]]
    if frames is not None and name == "decode_tiled" and len(found) == 5 and not owns_tiling(vae):
        found[2] = min(found[2], frames)
    return tuple(found)


def tiled_keywords(
    method: GuardedMethod, tiled: str, value: torch.Tensor, *args: Any, **kwargs: Any
) -> dict[str, Any] | None:
    """Return the other arguments of a call; None if the method with tiles does not take all.

    Newer ComfyUIs: `encode(pixels, not_video=…)`, which decides what the batch means. A decode with
    `vae_options` makes a 3D shape, which has no tiles.
    """
    if not hasattr(type(method.owner), tiled):
        return {}
    given = inspect.signature(method.unguarded).bind_partial(value, *args, **kwargs)
    named = dict(list(given.arguments.items())[1:])
    taken = inspect.signature(class_method(method.owner, tiled)).parameters
    return named if named.keys() <= taken.keys() else None


def _work_copy(
    vae: Any, plan: Plan, part: Callable[[Any], tuple[int, ...]] | None = None
) -> Any:
    """Return a copy that keeps the plan's room free of weights when it loads itself.

    part: returns the shape that is computed at once; room is made only for this. Some ComfyUIs make
    room for the whole picture though they compute tiles, and unload models for it.
    """
    work = plain_copy(vae)
    for name in ("memory_used_decode", "memory_used_encode"):
        estimate = getattr(vae, name, None)
        if estimate is not None and (plan.room_bytes or part is not None):
            setattr(work, name, _at_least(estimate, plan.room_bytes, part or tuple))
    return work


def _at_least(
    estimate: Callable[..., Any], room_bytes: int, part: Callable[[Any], tuple[int, ...]]
) -> Callable[..., Any]:
    return lambda shape, *args, **kwargs: max(estimate(part(shape), *args, **kwargs), room_bytes)

"""One call of a VAE on a copy of it: whole without ComfyUI's own way into tiles, or in tiles.

ComfyUI's `decode` and `encode` answer an out-of-memory error by tiling at once, in tiles that can
be as large as the picture. On the copy that way out leads back here, so that memory can be freed
and the whole picture tried again first.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from .call import Plan
from .copies import GuardedMethod, class_method, plain_copy
from .errors import CANDIDATES, TORCH_OOM, is_out_of_memory
from .tiles import images_apart, joined_images, overlap_of

MOST_OVERLAP = {"decode_tiled": 16, "encode_tiled": 64}  # of pictures, as ComfyUI's own tiles


class _WantsTiles(Exception):
    """ComfyUI wanted to tile. It does not take this for an out-of-memory error, so it gets out."""


# Every method that ComfyUI's `decode` and `encode` fall back to leads out of them.
_FALLBACKS = [f"{name}_{how}" for name in ("decode_tiled", "encode_tiled")
              for how in ("", "1d", "3d")] + ["_decode_tiled_owned", "_encode_tiled_owned"]


def _no_tiles(*args: Any, **kwargs: Any) -> Any:
    raise _WantsTiles


class _Watched:
    """Stands for `first_stage_model` in one call: notes the batch and the error it fails with."""

    def __init__(self, model: Any, call: Any) -> None:
        self._model = model
        self._call = call
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def decode(self, samples: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._run(self._model.decode, samples, *args, **kwargs)

    def encode(self, pixels: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._run(self._model.encode, pixels, *args, **kwargs)

    def _run(self, function: Callable[..., Any], value: Any, *args: Any, **kwargs: Any) -> Any:
        self._call.seen = max(self._call.seen, int(value.shape[0]))
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
    """Return what `method` gives for `value` in parts of the plan's images, without tiles.

    Raises the out-of-memory error that would have made ComfyUI tile. What another pack has set in
    the place of the method is called as it is. `call.seen` becomes the largest batch.
    """
    if method.own is not None:
        return method.own(value, *args, **kwargs)

    def one(part: torch.Tensor) -> torch.Tensor:
        work = _work_copy(method.owner, plan)
        vars(work).update(dict.fromkeys(_FALLBACKS, _no_tiles))
        watched = work.first_stage_model = _Watched(method.owner.first_stage_model, call)
        try:
            result: torch.Tensor = class_method(work, method.name)(part, *args, **kwargs)
            return result
        except _WantsTiles:
            pass
        raise watched.error or TORCH_OOM("out of memory before the VAE computed: no room for all")

    return joined_images([one(part) for part in images_apart(value, plan.parts)])


def in_tiles(
    vae: Any, plan: Plan, name: str, value: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Return `vae.<name>(value)` for a method that tiles, with the plan's tiles where it has any.

    name: `decode_tiled` or `encode_tiled`, with ComfyUI's keywords tile_x, tile_y, overlap ...
    """
    given = dict(kwargs)
    if plan.tile is not None:
        overlap = overlap_of(plan.tile, MOST_OVERLAP[name], value.ndim != 4)
        given.update(tile_x=plan.tile, tile_y=plan.tile, overlap=overlap)
        args = ()
    if plan.frames is not None:
        given.update(tile_t=plan.frames, overlap_t=max(1, plan.frames // 4))
    return class_method(_work_copy(vae, plan), name)(value, *args, **given)


def tiled_keywords(
    method: GuardedMethod, tiled: str, value: torch.Tensor, *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """Return what else a call was given, as far as the method that tiles takes it too.

    Newer hosts: `encode(pixels, not_video=…)`, which decides what the batch means.
    """
    if not hasattr(type(method.owner), tiled):
        return {}
    given = inspect.signature(method.unguarded).bind_partial(value, *args, **kwargs)
    named = list(given.arguments.items())[1:]
    taken = inspect.signature(class_method(method.owner, tiled)).parameters
    return {name: item for name, item in named if name in taken}


def _work_copy(vae: Any, plan: Plan) -> Any:
    """Return a copy that keeps the plan's room free of weights when it loads itself."""
    work = plain_copy(vae)
    for name in ("memory_used_decode", "memory_used_encode"):
        estimate = getattr(vae, name, None)
        if estimate is not None and plan.room_bytes:
            setattr(work, name, _at_least(estimate, plan.room_bytes))
    return work


def _at_least(estimate: Callable[..., Any], room_bytes: int) -> Callable[..., Any]:
    return lambda *args, **kwargs: max(estimate(*args, **kwargs), room_bytes)

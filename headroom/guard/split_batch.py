"""Run one joined call of a diffusion model in smaller pieces and join the results.

ComfyUI joins conditionings (positive with negative) and images into one batch: `chunks`
conditionings of `images` rows each. Whole chunks may be separated, since ComfyUI itself joins them
only when memory allows, except beside a patch that needs all of them. Images of one chunk are
separated only where nothing in the call can mix or count them.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import torch

from ..base.modules import module_of
from ..base.patches import patches_in
from ..host.adapter import guard_host, unrecorded
from .left_out import complete
from .replay import RandomState
from .run import KEY, Piece, Run, pieces

# Patches of ComfyUI that treat every sample on its own. Any other patch may keep or mix what it
# sees of a batch, so with it only whole conditionings are separated.
_PER_SAMPLE_PATCHES = ("comfy_extras.nodes_freelunch", "comfy_extras.nodes_pag",
                       "comfy_extras.nodes_slg")
# Patches that compute one conditioning from another, or keep what the first call computed for all
# conditionings (Flux KV Cache), and a network that exchanges the halves of its batch: such a call
# is never cut.
_ACROSS_CONDITIONINGS = ("comfy_extras.nodes_nag", "comfy_extras.nodes_flux",
                         "comfy.ldm.hunyuan3dv2_1.hunyuandit")
# Their batch is one video or one set of frames that attend to each other; `ar_state` has a cache
# with the rows of the whole batch.
_MIXED_KWARGS = ("num_video_frames", "image_only_indicator")
_MIXED_OPTIONS = ("ad_params", "ar_state")
_KNOWN_TENSORS = ("sigmas", "sample_sigmas")
_WITHOUT_ROWS = (str, bytes, int, float, type(None), Enum, torch.Size, torch.dtype, torch.device)


class Unsplittable(Exception):
    """A value of the call has no batch dimension that we know."""


def rows_of(value: Any, start: int, stop: int, batch: int) -> Any:
    """Return rows `start` to `stop` of everything with a batch dimension inside `value`.

    Tensors: dimension 0 is the batch if it has `batch` entries; 1 entry serves all rows. Raises
    Unsplittable for any other tensor, and for objects that may contain rows: ComfyUI's own models
    get nothing but tensors, plain containers and plain values.
    """
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_nested:
            raise Unsplittable("a sparse or nested tensor")
        if value.ndim == 0 or value.shape[0] == 1:
            return value
        if value.shape[0] != batch:
            raise Unsplittable(f"a tensor of shape {tuple(value.shape)} in a batch of {batch}")
        return value[start:stop]
    if type(value) in (list, tuple):
        return type(value)(rows_of(item, start, stop, batch) for item in value)
    if type(value) is dict:
        return {name: rows_of(item, start, stop, batch) for name, item in value.items()}
    if isinstance(value, _WITHOUT_ROWS) or callable(value):
        return value
    raise Unsplittable(f"a {type(value).__name__} in a batch of {batch}")


def images_are_independent(options: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether nothing in the call is known to mix, count or remember images of a batch."""
    if any(name in kwargs for name in _MIXED_KWARGS):
        return False
    if any(name in options for name in _MIXED_OPTIONS):
        return False
    if any(isinstance(v, torch.Tensor) and k not in _KNOWN_TENSORS for k, v in options.items()):
        return False
    return all(module_of(patch) in _PER_SAMPLE_PATCHES for patch in patches_in(options))


def chunks_of(batch: int, options: Mapping[str, Any]) -> int:
    """Return how many conditionings are joined in a batch; 1 where the call does not tell."""
    chunks = len(options.get("cond_or_uncond") or [0])
    return chunks if batch % chunks == 0 else 1


def options_of(options: Mapping[str, Any], piece: Piece, images: int) -> dict[str, Any]:
    """Return the transformer options as ComfyUI would have made them for this piece alone."""
    own = dict(options)
    for name in ("cond_or_uncond", "uuids"):
        if isinstance(options.get(name), Sequence):
            own[name] = list(options[name][piece.first : piece.last])
    sigmas = options.get("sigmas")
    within = (piece.start % images, piece.start % images + piece.stop - piece.start)
    is_part = within[1] - within[0] < images
    if isinstance(sigmas, torch.Tensor) and is_part and sigmas.ndim and sigmas.shape[0] == images:
        own["sigmas"] = sigmas[within[0] : within[1]]
    return own


def run_in_pieces(
    cut: Sequence[Piece], batch: int, run: Callable[[Piece], torch.Tensor]
) -> torch.Tensor:
    """Return the rows of all pieces in one tensor (batch, ...), made as soon as its shape is known.

    Each piece begins with the same random state: a patch that draws random numbers for all rows
    (merged tokens) draws them once in a whole call. Peak: the whole result and one piece.
    Concatenation would take twice the result.
    """
    joined: torch.Tensor | None = None
    state = RandomState()
    for piece in cut:
        state.restore()
        part = run(piece)
        with unrecorded():
            if joined is None:
                joined = part.new_empty((batch, *part.shape[1:]))
            joined[piece.start : piece.stop] = part
        del part
    assert joined is not None  # there is one piece at least
    return joined


def join_rows(parts: Sequence[Any]) -> Any:
    """Concatenate nested results of pieces row-wise; equal structures of tensors and None.

    A tensor that is in the results several times (ControlNets share them) stays shared.
    """
    with unrecorded():
        return _join(parts, {})


def _join(parts: Sequence[Any], memo: dict[tuple[int, ...], torch.Tensor]) -> Any:
    first = parts[0]
    if isinstance(first, torch.Tensor):
        key = tuple(id(part) for part in parts)
        if key not in memo:
            memo[key] = torch.cat(list(parts))
        return memo[key]
    if isinstance(first, dict):
        return {name: _join([part[name] for part in parts], memo) for name in first}
    if isinstance(first, (list, tuple)):
        joined = [_join(items, memo) for items in zip(*parts, strict=True)]
        return joined if isinstance(first, list) else tuple(joined)
    return first


def forward(
    executor: Callable[..., Any], x: torch.Tensor, t: torch.Tensor, c_concat: Any = None,
    c_crossattn: Any = None, control: Any = None,
    transformer_options: dict[str, Any] | None = None, **kwargs: Any,
) -> Any:
    """APPLY_MODEL wrapper: run the call in pieces of the run's limit, if the result stays the same.

    x: (batch, ...) with the rows of the joined conditionings one after another. Without a limit the
    call is passed on unchanged.
    """
    options: dict[str, Any] = {} if transformer_options is None else transformer_options
    given = (x, t, c_concat, c_crossattn, control)
    run = options.get(KEY)
    if not isinstance(run, Run):
        return executor(*given, options, **kwargs)
    batch = x.shape[0]
    chunks = chunks_of(batch, options)
    independent = _is_independent(executor, options, kwargs)
    smallest = 1 if independent else batch // chunks
    network = getattr(getattr(executor, "class_obj", None), "diffusion_model", None)
    if any(module_of(part) in _ACROSS_CONDITIONINGS for part in [*patches_in(options), network]):
        smallest = batch
    limit = max(run.plan.parts or batch, smallest)
    if limit < batch and not _can_cut([*given, kwargs], batch):
        limit = smallest = batch
    run.saw(batch, smallest, batch // chunks)
    if limit >= batch:
        return complete(lambda: executor(*given, options, **kwargs))
    images = batch // chunks

    def piece(part: Piece) -> torch.Tensor:
        some, named = rows_of((given, kwargs), part.start, part.stop, batch)
        own = options_of(options, part, images)
        result: torch.Tensor = complete(lambda: executor(*some, own, **named))
        return result

    return run_in_pieces(
        pieces(batch, chunks, limit, independent), batch, piece
    )


def _is_independent(
    executor: Any, options: dict[str, Any], kwargs: dict[str, Any]
) -> bool:
    guard = guard_host()
    if guard is None or guard.foreign_wrappers(options, KEY) or guard.is_injected(executor):
        return False
    return images_are_independent(options, kwargs)


def _can_cut(values: Any, batch: int) -> bool:
    """Return whether we know the batch dimension of every value; it computes nothing."""
    try:
        rows_of(values, 0, 1, batch)
    except Unsplittable:
        return False
    return True

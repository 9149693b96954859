"""Run each call of the diffusion model in pieces, where that does not change the result."""

from collections.abc import Callable
from typing import Any

import torch

from ..host.adapter import guard_host
from . import split_batch
from .run import KEY, Run
from .split_batch import Piece, Unsplittable


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
    chunks = split_batch.chunks_of(batch, options)
    independent = _is_independent(executor, options, kwargs)
    smallest = 1 if independent else batch // chunks
    limit = max(run.plan.parts or batch, smallest)
    if limit < batch and not _can_cut([*given, kwargs], batch):
        limit = smallest = batch
    run.saw(batch, smallest, batch // chunks)
    if limit >= batch:
        return executor(*given, options, **kwargs)
    images = batch // chunks

    def piece(part: Piece) -> torch.Tensor:
        some, named = split_batch.rows_of((given, kwargs), part.start, part.stop, batch)
        own = split_batch.options_of(options, part, images)
        result: torch.Tensor = executor(*some, own, **named)
        return result

    return split_batch.run_in_pieces(
        split_batch.pieces(batch, chunks, limit, independent), batch, piece
    )


def _is_independent(
    executor: Any, options: dict[str, Any], kwargs: dict[str, Any]
) -> bool:
    guard = guard_host()
    if guard is None or guard.foreign_wrappers(options, KEY) or guard.is_injected(executor):
        return False
    return split_batch.images_are_independent(options, kwargs)


def _can_cut(values: Any, batch: int) -> bool:
    """Return whether we know the batch dimension of every value; it computes nothing."""
    try:
        split_batch.rows_of(values, 0, 1, batch)
    except Unsplittable:
        return False
    return True

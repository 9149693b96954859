"""How many images at a time, or how large a tile, can fit; and how the parts are joined again."""

import math
from collections.abc import Callable, Sequence

import torch

from ..base.said import said
from ..host.adapter import unrecorded
from .call import Plan
from .lack import Lack


def fewer_images(at_once: int, lack: Lack, need: float = 0.0) -> int | None:
    """Return how many images at a time can fit; 0: not even one can; None: it is one already.

    need: the bytes that one image takes at least. Where nothing is known: half as many.
    """
    if at_once <= 1:
        return None
    if lack.is_last:
        return 0
    fits = lack.share_of(at_once)
    if fits is None:
        return (at_once + 1) // 2
    if need:
        fits = min(fits, int((lack.room_bytes or 0) / need))
    return 0 if fits < 1 else -(-at_once // -(-at_once // min(fits, at_once - 1)))


def smaller_tile(
    sides: Sequence[int], now: int | None, smallest: int, lack: Lack,
    needs: Callable[[int], float] = lambda tile: 0.0,
    count: Callable[[int], int] | None = None,
) -> int | None:
    """Return the side of the largest tile that can fit; None if none is smaller than `now`.

    sides: of the input, in its pixels. needs: returns the bytes that a tile takes at least. count:
    returns how many tiles of a size there are; of sizes with the same count the smallest is taken.
    After a tile that failed, the next has at most three quarters of its side, so half the area;
    where nothing is known, half of its side.
    """
    whole = now or max(sides)
    sizes = range((whole - 1) // smallest * smallest, smallest - 1, -smallest)
    if not sizes or lack.is_last:
        return smallest if sizes else None
    need, room = lack.need_bytes, lack.room_bytes
    is_known = need is not None and room is not None
    most = whole if is_known and now is None else whole * 3 // 4 if is_known else whole // 2

    def fits(tile: int) -> bool:
        if need is None or room is None:
            return True
        return need * _share(sides, whole, tile) <= room and needs(tile) <= room

    tile = next((size for size in sizes if size <= most and fits(size)), smallest)
    if count is None:
        return tile
    fewest, unit = count(tile), max(1, smallest // 2)
    return next((size for size in range(smallest, tile, unit) if count(size) <= fewest), tile)


def _share(sides: Sequence[int], whole: int, tile: int) -> float:
    """Return which part of what is computed at once now one tile of this side would be."""
    now = [min(side, whole) for side in sides]
    return math.prod(min(side, tile) for side in now) / math.prod(now)


def tile_count(
    sides: Sequence[int], tile: int, is_video: bool, most: int = 16, step: int = 1
) -> int:
    """Return how many tiles ComfyUI makes: a picture gets three passes, square, wide and tall.

    sides: height and width in the unit of `tile`; most, step: of `overlap_of`.
    """
    overlap = overlap_of(tile, most, is_video, step)
    shapes = [(tile, tile)] if is_video else [(tile, tile), (tile // 2, tile * 2),
                                              (tile * 2, tile // 2)]
    return sum(
        math.prod(-(-max(side - overlap, 1) // (part - overlap)) if side > part else 1
                  for side, part in zip(sides, shape, strict=True))
        for shape in shapes
    )


def overlap_of(tile: int, most: int, is_video: bool, step: int = 1) -> int:
    """Return the overlap of two tiles: a quarter of a tile, for pictures at most `most`.

    step: it is a multiple of this.
    """
    return (tile // 4 if is_video else min(tile // 4, most)) // step * step


def in_parts(
    compute: Callable[[torch.Tensor], torch.Tensor], value: torch.Tensor, images: int | None
) -> torch.Tensor:
    """Return what `compute` makes of `value` (B, ...), in parts of at most `images`; None: whole.
    """
    if images is None or images >= value.shape[0]:
        return compute(value)
    results = [compute(part) for part in torch.split(value, images)]
    with unrecorded():
        return torch.cat(results)


def images_words(plan: Plan, seen: int, unit: int = 1) -> list[str]:
    """Return how the images of a plan are computed, of `seen`; unit: pixels of one input element.
    """
    words: list[str] = []
    if plan.parts is not None and plan.tile is None:
        words.append(said("computed {images} of {seen} images at a time", images=plan.parts,
                          seen=seen))
    if plan.tile is not None:
        words.append(said(
            "computed in tiles of {pixels} pixels" if plan.frames is None
            else "computed in tiles of {pixels} pixels and {frames} frames",
            pixels=plan.tile * unit, frames=plan.frames or 0))
    return words

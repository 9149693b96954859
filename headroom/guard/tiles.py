"""Rung 5: fewer images at a time, then smaller and smaller tiles."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from ..base.said import said
from .choose import RecoveryStep
from .footprint import Footprint
from .plan import Plan
from .shortage import Shortage

_SURE = 0.9  # of the room: a larger tile is not proportionally larger in everything
# ComfyUI's own tile takes so much less than estimated, at best (SD1.5's VAE: 366 MiB of 544): stock
# would come through with it.
_OWN = 1.5


class FewerImages(RecoveryStep):
    """Compute as many images at a time as can fit, down to one. `needs` estimates those of one."""

    name = said("step_images", "fewer images at a time")
    is_exact = False

    def __init__(self, plan: Plan, needs: Callable[[], float] | None = None) -> None:
        self._plan = plan
        self._needs = needs

    def spares(self, shortage: Shortage) -> int | None:
        at_once = self._at_once
        if at_once <= 1:
            return 0
        need = shortage.need_bytes
        return None if need is None else need * (at_once - 1) // at_once

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        plan, at_once = self._plan, self._at_once
        if at_once <= 1:
            return None
        plan.has_failed = plan.images is not None
        fits = shortage.share_of(at_once)
        if self._needs is not None and fits is not None:
            fits = min(fits, int((shortage.room_bytes or 0) / max(self._needs(), 1.0)))
        fits = (at_once + 1) // 2 if fits is None else min(max(fits, 1), at_once - 1)
        plan.images = 1 if tries_left <= 2 else -(-at_once // -(-at_once // fits))
        return plan.words()[-1]

    def why_not(self, shortage: Shortage) -> str:
        count = max(self._at_once, 1)
        text = "it is one image" if count == 1 else f"they are {count}"
        return said("why_images", text, count=count)

    @property
    def _at_once(self) -> int:
        plan = self._plan
        return plan.seen if plan.images is None else min(plan.images, plan.seen)


class SmallerTiles(RecoveryStep):
    """Compute in the largest tiles that can fit, multiples of `smallest` below `below`.

    sides: height and width of the input, in pixels of it; `below` is the longer one by default.
    `needs` estimates the bytes for a tile, of which two thirds are needed at least. `own` is the
    tile that ComfyUI takes by itself: tried where it can fit, so that the guard is never slower.
    `count` tells how many tiles of a size there are: of equally many the smallest are taken.
    `quiet` tells how much of a room a tile can take without moving weights off the device (None:
    all of it): not smaller than `own`, a tile is such, as each would bring them back many times.
    A video (`frames` above 1) that does not fit in its smallest tiles is then cut in time.
    """

    name = said("step_tiles", "smaller tiles")
    is_exact = False

    def __init__(
        self, plan: Plan, sides: Sequence[int], smallest: int, below: int | None = None,
        frames: int = 1, needs: Callable[[int], float] | None = None, own: int | None = None,
        count: Callable[[int], int] | None = None,
        quiet: Callable[[int], int | None] = lambda room_bytes: None,
    ) -> None:
        self._own = own
        self._quiet = quiet
        self._count = count
        self._failed = 0  # how many tiles were tried in vain
        self._plan = plan
        self._sides = sides
        self._needs = needs
        largest = min(max(sides), below or max(sides)) - 1
        self._sizes = list(range(largest // smallest * smallest, smallest - 1, -smallest))
        self._smallest = smallest
        self._unit = max(1, smallest // 2)  # of what is fitted to figures
        self._spans = list(_halvings(frames, 2))

    def spares(self, shortage: Shortage) -> int | None:
        if not self._sizes and not self._spans:
            return 0
        if shortage.need_bytes is None:
            return None
        least = self._share(self._sizes[-1]) if self._sizes else 1.0
        return int(shortage.need_bytes * (1 - least / (2 if self._spans else 1)))

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        plan = self._plan
        plan.has_failed = plan.has_failed or plan.tile is not None
        self._failed += plan.tile is not None
        if self._sizes:
            is_last = tries_left == 1
            plan.tile = self._sizes[-1] if is_last else self._even(self._largest(shortage))
            self._sizes = [size for size in self._sizes if size < plan.tile]
            return plan.words()[-1]
        if self._spans:
            plan.tile = plan.tile or self._smallest
            plan.frames = self._spans[-1] if tries_left == 1 else self._spans[0]
            self._spans = [span for span in self._spans if span < plan.frames]
            return plan.words()[-1]
        return None

    def why_not(self, shortage: Shortage) -> str:
        if self._sizes:
            return said("why_not_enough", "not enough")
        return said("why_small", "it was no larger than the smallest tile")

    def larger(self, footprint: Footprint) -> int | None:
        """Return the best tile for the next time, by what this one took.

        The largest that leaves the weights where they are; where none does, the largest.
        """
        tile = self._plan.tile
        if tile is None or self._plan.frames is not None or self._plan.has_failed:
            return tile

        def side(room_bytes: float) -> int:
            grown = int(tile * (room_bytes / footprint.need_bytes) ** 0.5)
            return min(grown, max(self._sides) - 1) // self._unit * self._unit

        quiet = self._quiet(footprint.room_bytes)
        if quiet is not None and side(quiet) >= (self._own or math.inf):
            return self._even(side(quiet))
        return max(tile, self._even(side(_SURE * footprint.room_bytes)))

    def _even(self, tile: int) -> int:
        """Return the smallest tile of which no more are needed than of this one."""
        if self._count is None:
            return tile
        most = self._count(tile)
        sizes = range(self._smallest, tile, self._unit)
        return next((size for size in sizes if self._count(size) <= most), tile)

    def _largest(self, shortage: Shortage) -> int:
        """Return the largest tile that can fit; after a failed one at most 3/4 of it, then half."""
        need, room, tile = shortage.need_bytes, shortage.room_bytes, self._plan.tile
        sizes = self._sizes
        if need is not None and room is not None:
            sizes = [size for size in sizes if need * self._share(size) <= room]
            if self._needs is not None and tile is None:
                sizes = [
                    size for size in sizes
                    if self._needs(size) <= (room * _OWN if size == self._own else room)
                ]
            sizes = self._undisturbing(sizes, need, self._quiet(room)) or sizes
        if sizes is self._sizes or tile is not None or not sizes:
            most = (tile or max(self._sides)) // 2
            if need is not None and self._failed == 1:  # a quarter less is half of what it computes
                most = (tile or max(self._sides)) * 3 // 4
            sizes = [size for size in sizes or self._sizes if size <= most]
        return sizes[0] if sizes else self._sizes[-1]

    def _undisturbing(self, sizes: list[int], need: int, quiet: int | None) -> list[int]:
        """Return those of `sizes` that take so little, down to ComfyUI's own; none for None."""
        if quiet is None or self._own is None:
            return []
        takes = self._needs or (lambda size: need * self._share(size))
        return [size for size in sizes if size >= self._own and takes(size) <= quiet]

    def _share(self, tile: int) -> float:
        """Return how much of what is computed at once now would be in one tile of this side."""
        now = self._plan.tile or max(self._sides)
        whole = [min(side, now) for side in self._sides]
        part = [min(side, tile) for side in whole]
        return math.prod(part) / math.prod(whole)


def tile_count(sides: Sequence[int], tile: int, is_video: bool, most: int = 16) -> int:
    """Return how many tiles ComfyUI makes: of a picture square, wide and tall ones, one each pass.

    sides: height and width in the unit of `tile`; most: of their overlap, for pictures.
    """
    overlap = overlap_of(tile, most, is_video)
    shapes = [(tile, tile)] if is_video else [(tile, tile), (tile // 2, tile * 2),
                                              (tile * 2, tile // 2)]
    return sum(
        math.prod(-(-max(side - overlap, 1) // (part - overlap)) if side > part else 1
                  for side, part in zip(sides, shape, strict=True))
        for shape in shapes
    )


def overlap_of(tile: int, most: int, is_video: bool) -> int:
    """Return by how much tiles overlap: a quarter, of a picture's not more than ComfyUI's own."""
    return tile // 4 if is_video else min(tile // 4, most)


def _halvings(size: int, smallest: int) -> Iterator[int]:
    """Yield the powers of two below `size`, largest first, down to `smallest`."""
    power = 1 << max(size - 1, 1).bit_length() - 1
    while power >= smallest:
        if power < size:
            yield power
        power //= 2


def images_apart(value: torch.Tensor, images: int | None) -> list[torch.Tensor]:
    """Return `value` (B, ...) in parts of at most `images`; whole for None."""
    if images is None:
        return [value]
    return [value[first : first + images] for first in range(0, value.shape[0], images)]


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the parts of `images_apart` as one tensor again; a single part is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))

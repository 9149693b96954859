"""Rung 5: fewer images at a time, then smaller and smaller tiles."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from .failure import Failure


@dataclass
class Plan:
    """How the next try of an image computation runs; sizes in pixels of its input.

    `images`, `tile` and `frames` of None mean: as many, and as large, as they come. `room` is how
    many times the usual estimate is kept free of weights. `seen` is the largest batch that the
    network was called with.
    """

    images: int | None = None
    tile: int | None = None
    frames: int | None = None
    room: int = 1
    seen: int = 0


class MoreRoom:
    """Rung 3 for models that load themselves at each call: keep (almost) no weights loaded."""

    _ROOM = 1_000

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self._plan = plan
        self._device = device

    def take(self, failure: Failure, tries_left: int) -> str | None:
        if self._plan.room > 1 or failure.where == "RAM" or self._device.type == "cpu":
            return None
        self._plan.room = self._ROOM
        return "offloaded its own weights as far as they can be streamed"


class FewerImages:
    """Halve the images that are computed at a time, down to one."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def take(self, failure: Failure, tries_left: int) -> str | None:
        plan = self._plan
        at_once = plan.seen if plan.images is None else min(plan.images, plan.seen)
        if at_once <= 1:
            return None
        plan.images = 1 if tries_left <= 2 else (at_once + 1) // 2
        return f"computed {plan.images} of {plan.seen} images at a time"


class SmallerTiles:
    """Halve the tiles from the largest power of two below `side` down to `smallest`.

    A video (`frames` above 1) that does not fit in its smallest tiles is then cut in time.
    """

    def __init__(self, plan: Plan, side: int, smallest: int, frames: int = 1) -> None:
        self._plan = plan
        self._smallest = smallest
        self._sizes = list(_halvings(side, smallest))
        self._spans = list(_halvings(frames, 2))

    def take(self, failure: Failure, tries_left: int) -> str | None:
        plan = self._plan
        if self._sizes:
            plan.tile = self._sizes[-1] if tries_left == 1 else self._sizes[0]
            self._sizes = [size for size in self._sizes if size < plan.tile]
            return f"computed in tiles of {plan.tile}"
        if self._spans:
            plan.tile = plan.tile or self._smallest
            plan.frames = self._spans[-1] if tries_left == 1 else self._spans[0]
            self._spans = [span for span in self._spans if span < plan.frames]
            return f"computed in tiles of {plan.tile} and {plan.frames} frames"
        return None


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

"""Sort work by picture size, so that an allocator gets the largest request first.

A caching allocator keeps the blocks of past sizes. From small to large no block fits the next
request, so every new size asks the driver again; from large to small blocks are reused.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..base.inputs import expect_choice, expect_whole

Order = Literal["largest first", "smallest first"]
Fit = Literal["keep each size", "pad up to largest", "round up to bucket"]

LISTED_SHAPES = 20


class Size(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int

    @property
    def area(self) -> int:
        return self.width * self.height

    @property
    def longer(self) -> int:
        return max(self.width, self.height)

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


@dataclass(frozen=True)
class Placed:
    """One piece of work in its new place: `index` was its old place, `size` is its new size."""

    index: int
    size: Size


@dataclass(frozen=True)
class SortedSizes:
    """The work in its new order, and what `fit` did to the shapes."""

    placed: tuple[Placed, ...]
    asked: tuple[Size, ...]
    order: Order
    fit: Fit
    bucket: int

    @property
    def shapes_before(self) -> int:
        """Distinct shapes as asked."""
        return len(set(self.asked))

    @property
    def shapes_after(self) -> int:
        """Distinct shapes after `fit`."""
        return len({item.size for item in self.placed})

    @property
    def added_percent(self) -> float:
        """Pixels that `fit` adds, in percent of the pixels asked for."""
        asked = sum(size.area for size in self.asked)
        given = sum(item.size.area for item in self.placed)
        return 100.0 * (given - asked) / asked if asked else 0.0

    @property
    def text(self) -> str:
        """The sorted sizes as text: a headline, then the distinct shapes in their new order."""
        if not self.placed:
            return "0 sizes: there is nothing to sort"
        counts = Counter(item.size for item in self.placed)
        listed = [f"- {size}: {_times(number)}" for size, number in counts.items()]
        if len(listed) > LISTED_SHAPES:
            left = len(listed) - LISTED_SHAPES
            listed = [*listed[:LISTED_SHAPES], f"- and {left} further shapes"]
        return "\n".join([self._headline(), *listed])

    def _headline(self) -> str:
        fit = f"{self.fit} ({self.bucket} px)" if self.fit == "round up to bucket" else self.fit
        return (
            f"{_plural(len(self.placed), 'size')}, {self.order}; {fit}: "
            f"{_plural(self.shapes_before, 'distinct shape')} before, {self.shapes_after} after, "
            f"{self.added_percent:.1f} % pixels added"
        )


def sort_sizes(
    sizes: Sequence[Size],
    order: Order = "largest first",
    fit: Fit = "keep each size",
    bucket: int = 64,
) -> SortedSizes:
    """Sort by area, then by the longer side; equal sizes are together, in their first order.

    `fit` is applied before sorting: `pad up to largest` gives every piece the largest width and
    the largest height among them, `round up to bucket` rounds each side up to a multiple of
    `bucket` pixels. Raises ValueError for an unknown `order` or `fit` or a bucket below 1.
    """
    fitted = _fit(list(sizes), fit, bucket)
    return SortedSizes(tuple(_sort(fitted, order)), tuple(sizes), order, fit, bucket)


def _fit(sizes: list[Size], fit: Fit, bucket: int) -> list[Size]:
    expect_choice("Size Sorter", "fit", fit, Fit)
    if fit == "keep each size" or not sizes:
        return sizes
    if fit == "pad up to largest":
        largest = Size(max(size.width for size in sizes), max(size.height for size in sizes))
        return [largest] * len(sizes)
    expect_whole("Size Sorter", "bucket", bucket, least=1)
    return [Size(_round_up(size.width, bucket), _round_up(size.height, bucket)) for size in sizes]


def _round_up(pixels: int, bucket: int) -> int:
    return -(-pixels // bucket) * bucket


def _sort(sizes: list[Size], order: Order) -> list[Placed]:
    expect_choice("Size Sorter", "order", order, Order)
    sign = -1 if order == "largest first" else 1
    first: dict[Size, int] = {}
    for index, size in enumerate(sizes):
        first.setdefault(size, index)

    # 2x8 and 8x2 have the same area and longer side: the place of the first keeps equals together.
    def rank(index: int) -> tuple[int, int, int]:
        size = sizes[index]
        return sign * size.area, sign * size.longer, first[size]

    return [Placed(index, sizes[index]) for index in sorted(range(len(sizes)), key=rank)]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

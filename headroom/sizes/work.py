"""Sort a list of work by size, and put the results back into the first order."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base.inputs import expect_list, expect_text, expect_whole
from ..base.said import said
from ..host.adapter import do_not_run
from .items import item_size, latent_scale
from .sorting import Fit, Order, SortedSizes, sort_sizes
from .text import parse_sizes


class SortedWork(NamedTuple):
    """The sorted sizes, and the items in their order (None for each if there are no items)."""

    sizes: SortedSizes
    items: list[Any]
    text: str


def sort_work(
    sizes: str = "",
    items: Sequence[Any] | None = None,
    order: Order = "largest first",
    fit: Fit = "keep each size",
    bucket: int = 64,
) -> SortedWork:
    """Sort by the sizes in the text `sizes`, or by those of `items` if there is no text.

    With both, line k of the text is the size of item k. The items themselves are not copied.
    Raises ValueError for unreadable text, items without a size, or a mismatch.
    """
    expect_text("Size Sorter", "sizes", sizes)
    if items is not None:
        expect_list("Size Sorter", "items", items)
    written = parse_sizes(sizes)
    work = list(items) if items is not None else [None] * len(written)
    asked = written or [item_size(item, place) for place, item in enumerate(work, start=1)]
    if len(asked) != len(work):
        raise ValueError(said(
            "Size Sorter expects one line in `sizes` for each of the {items} items, but got "
            "{sizes} sizes: leave `sizes` empty to use the items' own sizes, or disconnect "
            "`items`.", items=len(work), sizes=len(asked)))
    sorted_sizes = sort_sizes(asked, order, fit, bucket)
    notes = _notes(bool(written), work, fit) if items is not None else []
    text = "\n".join([sorted_sizes.text, *notes])
    return SortedWork(sorted_sizes, [work[placed.index] for placed in sorted_sizes.placed], text)


def _notes(has_text: bool, items: list[Any], fit: Fit) -> list[str]:
    """Return notes on the figures: the scale of latents, and that items are not resized."""
    notes = []
    latents = [item for item in items if issubclass(type(item), dict) and "samples" in item]
    if latents and not has_text:
        scales = sorted({latent_scale(latent) for latent in latents})
        shown = " or ".join(str(scale) for scale in scales)
        notes.append(f"latents are counted in pixels: {shown} px for a latent cell")
    if fit != "keep each size":
        notes.append("items are not changed; width and height are the sizes that they should get")
    return notes


def restore_order(items: Sequence[Any], index: Sequence[int]) -> list[Any]:
    """Return `items` in the order that they had before Size Sorter; `index` is its output.

    If the list has become longer, it must have the same number of consecutive items for each index;
    each such group stays together in its own order. Raises ValueError if the numbers do not fit.
    """
    expect_list("Restore Order", "items", items)
    expect_list("Restore Order", "index", index)
    for place in index:
        expect_whole("Restore Order", "index", place)
    if not index and not items:
        return []
    if not index or not items or len(items) % len(index):
        raise ValueError(said(
            "Restore Order expects as many items as indices, or a multiple, but got {items} "
            "items for {indices} indices: connect `index` of the Size Sorter and the list that "
            "was made from its outputs.", items=len(items), indices=len(index)))
    each = len(items) // len(index)
    places = sorted(range(len(index)), key=lambda place: index[place])
    return [item for place in places for item in items[place * each : (place + 1) * each]]


def sorted_lists(
    sizes: Sequence[str],
    items: Sequence[Any] | None,
    order: Sequence[Any],
    fit: Sequence[Any],
    bucket: Sequence[int],
) -> tuple[list[Any], list[Any], list[Any], list[Any], str]:
    """Return the lists width, height, item and index, then the report.

    Several texts in `sizes` count as one, line after line. If there is nothing to sort, the nodes
    after this one do not run: ComfyUI cannot pass them an empty list. Raises the ValueErrors of
    `sort_work`, and one if a setting is a list of different values.
    """
    expect_list("Size Sorter", "sizes", sizes)
    for text in sizes:
        expect_text("Size Sorter", "sizes", text)
    work = sort_work(
        "\n".join(sizes), items, _only("order", order), _only("fit", fit), _only("bucket", bucket)
    )
    placed = work.sizes.placed
    if not placed:
        nothing = do_not_run()
        return nothing, nothing, nothing, nothing, work.text
    width = [entry.size.width for entry in placed]
    height = [entry.size.height for entry in placed]
    return width, height, work.items, [entry.index for entry in placed], work.text


def _only(name: str, values: Sequence[Any]) -> Any:
    expect_list("Size Sorter", name, values)
    if not values or any(value != values[0] for value in values[1:]):
        raise ValueError(said(
            "Size Sorter expects one value for `{name}`, but a list of {count} came: it sorts the "
            "whole list at once, so connect a single value there.", name=name, count=len(values)))
    return values[0]

"""Size Sorter's lists: a node that takes whole lists gets its settings as lists as well."""

from collections.abc import Sequence
from typing import Any

from .host.seam import current_host
from .sizes.work import sort_work


def sorted_lists(
    sizes: Sequence[str],
    items: Sequence[Any] | None,
    order: Sequence[Any],
    fit: Sequence[Any],
    bucket: Sequence[int],
) -> tuple[list[Any], list[Any], list[Any], list[Any], str]:
    """Return the lists width, height, item and index, then the report.

    Several texts in `sizes` count as one, line after line. Where there is nothing to sort, the
    nodes behind are told not to run: ComfyUI cannot feed them an empty list.
    Raises ValueError as `sort_work` does, and where one of the settings is a list of different
    values.
    """
    work = sort_work(
        "\n".join(sizes), items, _only("order", order), _only("fit", fit), _only("bucket", bucket)
    )
    placed = work.plan.placed
    if not placed:
        host = current_host()
        nothing = [host.do_not_run()] if host is not None else []
        return nothing, nothing, nothing, nothing, work.text
    width = [entry.size.width for entry in placed]
    height = [entry.size.height for entry in placed]
    return width, height, work.items, [entry.index for entry in placed], work.text


def _only(name: str, values: Sequence[Any]) -> Any:
    if len(set(values)) != 1:
        raise ValueError(
            f"Size Sorter expects one value for `{name}`, but a list of {len(values)} came: it "
            "sorts the whole list at once, so connect a single value there."
        )
    return values[0]

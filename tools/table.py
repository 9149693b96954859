"""The demo's table: what each node took, and the GPU memory around it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

HEADINGS = ("node", "", "seconds", "VRAM before", "after", "peak (MiB)")
UNKNOWN = "-"


def run_table(run: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The record of `GET /headroom/runs/{prompt_id}` as aligned text, one line a node."""
    rows = [node_row(node, titles) for node in run.get("nodes", [])]
    whole = ["", "whole prompt", _number(run.get("seconds"), 2), "", ""]
    return render([list(HEADINGS), *rows, [*whole, _number(run.get("peak_vram_mib"), 1)]])


def node_row(node: Mapping[str, Any], titles: Mapping[str, str]) -> list[str]:
    """One node: id, title, seconds, and MiB before, after and at the peak."""
    node_id = str(node.get("node_id"))
    title = titles.get(node_id) or node.get("title") or node.get("class_type") or ""
    seconds = "cached" if node.get("cached") else _number(node.get("seconds"), 2)
    keys = ("vram_before_mib", "vram_after_mib", "peak_vram_mib")
    return [node_id, str(title), seconds, *(_number(node.get(key), 1) for key in keys)]


def _number(value: Any, digits: int) -> str:
    return UNKNOWN if value is None else f"{float(value):,.{digits}f}"


def markdown(rows: Sequence[Sequence[str]], rule: str) -> str:
    """A table of Markdown; `rule` is the line below its first row."""
    first, *others = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([first, rule, *others])


def render(rows: Sequence[Sequence[str]], left: Collection[int] = (1,)) -> str:
    """Aligned columns: these to the left, every other one to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * sum((*widths, 2 * (len(widths) - 1))))
    return "\n".join(lines)

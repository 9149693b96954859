"""`dev.py fit` against published figures of real GPUs, as pages show it: each figure's error.

What `benchmarks/fit_calibration.py` recorded is the only source: nothing here is written by hand.
"""

from typing import Any

from . import results
from .bench_rows import Say

PART = "fit_calibration"
Json = dict[str, Any]


def recorded() -> results.Part | None:
    """The newest record, on whichever ComfyUI: none takes part in it."""
    parts = [part for part in results.recorded() if part.name == PART]
    return max(parts, key=lambda part: part.date, default=None)


def kept(found: Json) -> tuple[int, int]:
    """How many published figures are within the limit, and of how many."""
    return sum(row["kept"] for row in found["rows"]), len(found["rows"])


def table(say: Say) -> str:
    """The table, what it comes to for single models and for whole runs, and the commit."""
    part = recorded()
    if part is None:
        return ""
    found = part.result
    head = (say("What", "内容"), say("Published, GiB", "公开数字，GiB"),
            say("Dry, GiB", "空跑，GiB"), say("Error", "误差"), say("Source", "来源"))
    lines = [f"| {' | '.join(head)} |", "|---|--:|--:|--:|---|",
             *(_row(row, say) for row in found["rows"])]
    return "\n".join([_claim(found, say), "", *lines, "", say(
        f"In brackets: without layout copies. Measured at {part.commit} on {part.date}.",
        f"括号内为不含布局副本的数字。测于 {part.commit}，{part.date}。")])


def _claim(found: Json, say: Say) -> str:
    within, count = kept(found)
    limit = f"{found['limit']:.0%}".replace("%", " %")
    first = say(f"{within} of {count} published figures are within {limit}",
                f"{count} 个公开数字中有 {within} 个相差在 {limit} 以内")
    parts = [_range(found[sort], words, say) for sort, words in (
        ("models", ("single models", "单个模型")), ("whole", ("whole runs", "完整运行")))]
    return say(f"{first}: {'; '.join(parts)}.", f"{first}：{'；'.join(parts)}。")


def _range(part: Json, words: tuple[str, str], say: Say) -> str:
    """How many were kept and the range of all errors, those that were missed too."""
    low, high = (_percent(part[name]) for name in ("lowest_error", "highest_error"))
    return say(f"{part['kept']} of {part['count']} {words[0]}, errors from {low} to {high}",
               f"{words[1]} {part['count']} 个中有 {part['kept']} 个，误差从 {low} 到 {high}")


def _row(row: Json, say: Say) -> str:
    dry = say("stopped", "中止") if row["gib"] is None else f"{row['gib']:.2f}"
    if row["without_layout_copies_gib"] is not None:
        dry += f" ({row['without_layout_copies_gib']:.2f})"
    error = "–" if row["error"] is None else _percent(row["error"])
    shown = error if row["kept"] else f"**{error}**"
    what = say(row["what"], row["chinese"])
    return f"| {what} | {row['published_gib']:.2f} | {dry} | {shown} | <{row['source']}> |"


def _percent(error: float) -> str:
    return f"{round(error * 100, 1) + 0:+.1f} %"  # + 0: no minus before a zero

"""`dev.py fit` against published figures of real GPUs, as pages show it: which lie in its range.

What `benchmarks/fit_calibration.py` recorded is the only source: nothing here is written by hand.
"""

from typing import Any

from . import results
from .bench_rows import Say
from .table import markdown

PART = "fit_calibration"
Json = dict[str, Any]


def claim(found: Json, say: Say) -> str:
    """The sentence of the README and of docs/fit.md."""
    inside, count = found["inside"], found["count"]
    worst = f"{-found['worst_underestimate'] * 100:.0f} %"
    return say(f"Of {count} published figures of real GPUs {inside} lie inside the range of such a "
               f"dry run; the worst underestimate is {worst}",
               f"{count} 项真实 GPU 的公开数字中有 {inside} 项落在空跑给出的范围内；"
               f"最严重的低估为 {worst}")


def table(say: Say) -> str:
    """The claim, the table, and the commit."""
    part = results.newest(PART)
    if part is None:
        return ""
    found = part.result
    head = (say("What", "内容"), say("Published, GiB", "公开数字，GiB"),
            say("Dry, GiB", "空跑，GiB"), say("Outside by", "超出范围"), say("Source", "来源"))
    lines = markdown([head, *(_row(row, say) for row in found["rows"])], "|---|--:|--:|--:|---|")
    wide = f"{found['median_width'] * 100:.0f} %"
    most = f"{found['worst_overestimate'] * 100:.1f} %"
    more = say(f"half of the ranges are at most {wide} wide; the worst overestimate is {most}.",
               f"半数范围的宽度不超过 {wide}；最大的高估为 {most}。")
    return "\n".join([f"{claim(found, say)}{say('; ', '；')}{more}", "", lines, "", say(
        f"Measured at {part.commit} on {part.date}.", f"测于 {part.commit}，{part.date}。")])


def _row(row: Json, say: Say) -> tuple[str, ...]:
    stopped = row["low_gib"] is None
    dry = say("stopped", "中止") if stopped else f"{row['low_gib']:.2f}–{row['high_gib']:.2f}"
    outside = "–" if row["inside"] or stopped else f"**{row['outside'] * 100:+.1f} %**"
    what = say(row["what"], row["chinese"])
    return what, f"{row['published_gib']:.2f}", dry, outside, f"<{row['source']}>"

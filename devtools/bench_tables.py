"""Tables from the recorded figures: one beside each results file, and those of the pages.

A page's part lies between two marker comments and is never written by hand. Every table names
the device, ComfyUI, torch and the commit that were measured.
"""

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from . import figures, results, workflows
from .bench_rows import Say, chinese, english, rows_of
from .results import Part

BEGIN, END = "<!-- {}: begin; written by `python dev.py bench` -->", "<!-- {}: end -->"
PAGES = {
    "figures": {"benchmarks/README.md": english, "benchmarks/README.zh-CN.md": chinese},
    "workflows": {"docs/workflows.md": english, "docs/workflows.zh-CN.md": chinese},
}


def publish(root: Path = results.ROOT, folder: Path = results.RESULTS) -> list[Path]:
    """Write every table anew from the recorded results; return the files that changed."""
    wanted = {path.with_suffix(".md"): file_table(path) for path in sorted(folder.glob("*.json"))}
    written = {
        "figures": lambda say: section(results.newest(folder), say),
        "workflows": figures.table,
    }
    for part, pages in PAGES.items():
        for name, say in pages.items():
            text = (root / name).read_text(encoding="utf-8")
            wanted[root / name] = with_part(text, part, written[part](say))
    for path in (root / "workflows").glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        wanted[path] = workflows.written(figures.with_figures(data, path.stem))
    changed = [path for path, text in wanted.items() if text and not _holds(path, text)]
    for path in changed:
        path.write_text(wanted[path], encoding="utf-8")
    return changed


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def file_table(path: Path) -> str:
    """The Markdown of one results file; empty for a file of another form."""
    parts = list(results.parts_of(path))
    if not parts:
        return ""
    return f"# {parts[0].device}, {parts[0].date}\n\n{section(parts, english)}\n"


def with_part(text: str, part: str, written: str) -> str:
    """The page with what is between the markers of that part replaced; ValueError without them.
    """
    begin, end = BEGIN.format(part), END.format(part)
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"The page has no part between {begin} and {end}.")
    return f"{before}{begin}\n{written}\n{end}{after}"


def section(parts: Iterable[Part], say: Say) -> str:
    """A table for each device, ComfyUI and torch, with what each was measured on above it."""
    tables = []
    for measured_on, group in groupby(parts, lambda part: (part.device, part.comfyui, part.torch)):
        found = list(group)
        if rows := [row for part in found for row in _rows(part, say)]:
            tables.append("\n".join([_about(*measured_on, say=say), "", *_head(say), *rows]))
    if all(part.simulated for part in parts):
        tables.append(say(
            "None of these figures was measured on a real GPU. `python dev.py bench --gpu` "
            "measures the same there.",
            "以上数字都不是在真实 GPU 上测得的；在有 GPU 的机器上，`python dev.py bench --gpu` "
            "会测量同样的内容。",
        ))
    return "\n\n".join(tables)


def _about(device: str, comfyui: str, torch: str, say: Say) -> str:
    if device != results.SIMULATED:
        return f"**{device}**, ComfyUI {comfyui}, torch {torch}"
    return say(
        f"**Simulated GPU** (no real GPU took part), ComfyUI {comfyui}, torch {torch}. Bytes are "
        "counted by a model of PyTorch's caching allocator, which agrees with the real one on a "
        "fake CUDA driver (`tests/unit/test_fake_cuda_driver.py`); there is no CUDA context, no "
        "stream and no dynamic VRAM. Seconds are of a CPU: only ratios within one run say "
        "something.",
        f"**模拟 GPU**（没有真实 GPU 参与），ComfyUI {comfyui}，torch {torch}。字节数由 PyTorch "
        "缓存分配器的模型计数，它与在伪 CUDA 驱动上运行的真实分配器一致"
        "（`tests/unit/test_fake_cuda_driver.py`）；不含 CUDA 上下文、流和动态显存。秒数来自 CPU，"
        "只有同一次运行内的比值有意义。",
    )


def _head(say: Say) -> list[str]:
    words = (say("What", "内容"), say("Figure", "数字"), say("Benchmark", "基准"),
             say("Commit", "提交"), say("Date", "日期"))
    return [f"| {' | '.join(words)} |", "|---|---|---|---|---|"]


def _rows(part: Part, say: Say) -> list[str]:
    return [
        f"| {what} | {figure} | `{part.name}` | {part.commit} | {part.date} |"
        for what, figure in rows_of(part.name, part.result, say)
    ]

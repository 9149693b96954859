"""Tables from the recorded figures, in the pages that show them.

A page's part lies between two marker comments and is never written by hand. Every table names
the device, ComfyUI, torch and the commit that were measured.
"""

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from . import advised, calibration, figures, results, workflows
from .bench_rows import Say, chinese, english, rows_of
from .results import Part
from .table import markdown

BEGIN, END = "<!-- {}: begin; written by `python dev.py bench` -->", "<!-- {}: end -->"
PAGES = {
    "figures": {"benchmarks/README.md": english, "benchmarks/README.zh-CN.md": chinese},
    "workflows": {"docs/workflows.md": english, "docs/workflows.zh-CN.md": chinese},
    "calibration": {"docs/fit.md": english, "docs/fit.zh-CN.md": chinese},
    "advised": {"README.md": english, "README.zh-CN.md": chinese},
}


def publish(root: Path = results.ROOT) -> list[Path]:
    """Write every table anew from the recorded results; return the files that changed."""
    wanted: dict[Path, str] = {}
    written = {
        "figures": lambda say: section(results.recorded(), say),
        "workflows": figures.table,
        "calibration": calibration.table, "advised": advised.table,
    }
    for part, pages in PAGES.items():
        for name, say in pages.items():
            text = (root / name).read_text(encoding="utf-8")
            wanted[root / name] = with_part(text, part, written[part](say))
    for path in (root / "workflows").glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        wanted[path] = workflows.written(figures.with_figures(data, path.stem))
    changed = [path for path, text in wanted.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.write_text(wanted[path], encoding="utf-8")
    return changed


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
    """A table for each device, ComfyUI and torch, with what each was measured on above it.

    The simulated GPU and the fake CUDA driver share one, with a column of figures each.
    """
    tables, real = [], False
    for measured_on, group in groupby(parts, lambda part: part.measured_on):
        found = list(group)
        real = real or not found[0].without_gpu
        if rows := _rows(found, say):
            _, comfyui, torch = measured_on
            about = _about(_devices(found), comfyui, torch, say)
            head = _head(_devices(found), say)
            tables.append(f"{about}\n\n{markdown([head, *rows], '|---' * len(head) + '|')}")
    if not real:
        tables.append(say(
            "None of these figures was measured on a real GPU. `python dev.py bench --gpu` "
            "measures the same there.",
            "以上数字都不是在真实 GPU 上测得的；在有 GPU 的机器上，`python dev.py bench --gpu` "
            "会测量同样的内容。",
        ))
    return "\n\n".join(tables)


def _devices(parts: Iterable[Part]) -> list[str]:
    return list(dict.fromkeys(part.device for part in parts))


def _about(devices: list[str], comfyui: str, torch: str, say: Say) -> str:
    texts = []
    for device in devices:
        name, more = ABOUT.get(device, ((f"**{device}**",) * 2, ("", "")))
        texts.append(say(f"{name[0]}, ComfyUI {comfyui}, torch {torch}{more[0]}",
                         f"{name[1]}，ComfyUI {comfyui}，torch {torch}{more[1]}"))
    return "\n\n".join(texts)


def _head(devices: list[str], say: Say) -> tuple[str, ...]:
    figures = [say("Figure", "数字")] if len(devices) == 1 else [
        say(*COLUMNS[device]) for device in devices
    ]
    return say("What", "内容"), *figures, say("Benchmark", "基准"), say("Measured", "测于")


def _rows(parts: list[Part], say: Say) -> list[tuple[str, ...]]:
    """One line for what was measured, with a figure for each device that has one."""
    lines: dict[tuple[str, str], dict[str, tuple[str, Part]]] = {}
    for part in sorted(parts, key=lambda part: part.name):
        for what, figure in rows_of(part.name, part.result, say):
            lines.setdefault((part.name, what), {})[part.device] = figure, part
    return [_row(what, name, found, _devices(parts)) for (name, what), found in lines.items()]


def _row(
    what: str, name: str, found: dict[str, tuple[str, Part]], devices: list[str]
) -> tuple[str, ...]:
    figures = [found[device][0] if device in found else "–" for device in devices]
    parts = [part for _, part in found.values()]
    measured = ", ".join(dict.fromkeys(f"{part.date}, {part.commit}" for part in parts))
    return what, *figures, f"`{name}`", measured


COLUMNS = {
    results.SIMULATED: ("Simulated GPU", "模拟 GPU"),
    results.FAKE: ("Real CUDA allocator, fake driver", "真实 CUDA 分配器，假驱动"),
}
# The name of what was measured on, and what it is not.
ABOUT = {
    results.SIMULATED: (
        ("**Simulated GPU** (no real GPU took part)", "**模拟 GPU**（没有真实 GPU 参与）"),
        (". Bytes are "
         "those of tensors, and of what stays reserved until the cache is emptied; in lines of "
         "2026-11-25 or before, a model counted the blocks that PyTorch's allocator makes. "
         "There is no CUDA context, no stream and no dynamic VRAM. "
         "Seconds are of a CPU: only ratios within one run say something.",
         "。字节数是张量的字节数，加上清空缓存前一直保留的字节数；2026-11-25 及之前的行按 "
         "PyTorch 分配器分块的模型计数。"
         "不含 CUDA 上下文、流和动态显存。秒数来自 CPU，只有同一次运行内的比值有意义。"),
    ),
    results.FAKE: (
        ("**Real CUDA allocator on a fake driver** (no real GPU took part)",
         "**假驱动上的真实 CUDA 分配器**（没有真实 GPU 参与）"),
        (". PyTorch's own allocator and ComfyUI's own memory management run unmodified on a "
         "library that poses as the CUDA driver (`lab/fakecuda/`). Kernels do nothing, so that "
         "seconds say what the program around them takes; bytes are the real ones, without a CUDA "
         "context and cuDNN's workspaces.",
         "。PyTorch 自己的分配器和 ComfyUI 自己的显存管理原样运行在一个冒充 CUDA 驱动的库上"
         "（`lab/fakecuda/`）。内核不做任何事，因此秒数只反映外围程序的耗时；字节数是真实的，"
         "但不含 CUDA 上下文和 cuDNN 的工作区。"),
    ),
}

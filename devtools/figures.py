"""The recorded figures of the bundled workflows, as text for their notes and for the READMEs.

What `benchmarks/workflows.py` recorded is the only source: nothing here is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import results
from .bench_rows import Say, english
from .workflows import WORKFLOWS

PART = "workflows"
BEGIN = "<!-- workflows: begin; written by `python dev.py bench` -->"
END = "<!-- workflows: end -->"
Json = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One measured thing, without our nodes and with them."""

    what: str
    stock: str
    ours: str


def recorded(comfyui: str | None = None) -> Json:
    """The newest figures of every workflow on the simulated GPU, of one ComfyUI or the oldest."""
    parts = [part for part in results.newest() if part.name == PART and part.simulated]
    wanted = [part for part in parts if comfyui in (None, part.comfyui)]
    return min(wanted, key=lambda part: _numbers(part.comfyui)).result if wanted else {}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".") if number.isdigit()]


def comparisons(found: Mapping[str, Any], say: Say = english) -> list[Comparison]:
    """What was compared for one workflow."""
    if "loop" in found:
        return _loop(found["loop"], say)
    if "same_capacity" in found:
        return _capacity(found, say)
    return [_left(found, say)]


def _left(found: Mapping[str, Any], say: Say) -> Comparison:
    what = say("stays on the GPU after the prompt", "任务结束后仍留在 GPU 上")
    return _both(found, what, "left_reserved_mib")


def _peak(found: Mapping[str, Any], say: Say) -> Comparison:
    what = say("reserved at most, on a GPU with room", "在空间充足的 GPU 上最多占用")
    return _both(found, what, "peak_reserved_mib")


def _both(found: Mapping[str, Any], what: str, figure: str) -> Comparison:
    return Comparison(what, *(_mib(found[kind][figure]) for kind in ("stock", "headroom")))


def _loop(loop: Mapping[str, Any], say: Say) -> list[Comparison]:
    few, many = loop["prompts"]
    grown = []
    for kind in ("stock", "headroom"):
        first, last = loop[f"{kind}_left_allocated_mib"]
        grown.append(_mib((last - first) / (many - few), digits=2))
    capacity = _mib(loop["capacity_mib"])
    return [
        Comparison(say("each further prompt adds", "每多一条提示词增加"), *grown),
        Comparison(
            say(f"{many} prompts on a GPU of {capacity}", f"{capacity} 的 GPU 上 {many} 条提示词"),
            *(_outcome(loop[f"{kind}_{many}_prompts"], say) for kind in ("stock", "headroom")),
        ),
    ]


def _capacity(found: Mapping[str, Any], say: Say) -> list[Comparison]:
    shared = found["same_capacity"]
    smallest = (_mib(found[kind]["smallest_capacity_mib"]) for kind in ("stock", "headroom"))
    capacity = _mib(shared["capacity_mib"])
    ends = [_outcome(shared[kind], say) for kind in ("stock", "headroom")]
    at_it = Comparison(say(f"on a GPU of {capacity}", f"在 {capacity} 的 GPU 上"), *ends)
    least = Comparison(say("smallest GPU that completes it", "能完成的最小 GPU"), *smallest)
    same = ends[0] == ends[1]
    return [least, _peak(found, say), _left(found, say)] if same else [least, at_it]


def _outcome(words: str, say: Say) -> str:
    if words == "completed":
        return say("completes", "完成")
    node = words.partition(":")[0]
    return say(f"out of memory in {node}", f"在 {node} 显存不足")


def _mib(amount: float, digits: int = 1) -> str:
    return f"{round(amount, digits):g} MiB"


def note_text(name: str) -> str:
    """What was measured, for the workflow's note; empty before the first measurement."""
    found = recorded().get(name)
    if not found:
        return ""
    rows = [f"| {c.what} | {c.stock} | {c.ours} |" for c in comparisons(found)]
    flags = f" and `{' '.join(found['flags'])}`" if found["flags"] else ""
    return "\n".join([
        f"**Measured** on a simulated GPU, with small random-weight models{flags}, so the bytes "
        "are small and the difference is what counts:",
        "",
        "| | ComfyUI's own nodes | This workflow |",
        "|---|---|---|",
        *rows,
    ])


def table(say: Say) -> str:
    """The READMEs' table of all workflows."""
    head = (say("Workflow", "工作流"), say("Compared", "比较"),
            say("ComfyUI's own nodes", "ComfyUI 自带节点"), say("With Headroom", "使用 Headroom"))
    rows = []
    known = recorded()
    for name in (name for name in WORKFLOWS if name in known):
        for number, each in enumerate(comparisons(known[name], say)):
            label = f"`{name}`" if number == 0 else ""
            rows.append(f"| {label} | {each.what} | {each.stock} | {each.ours} |")
    return "\n".join([f"| {' | '.join(head)} |", "|---|---|---|---|", *rows])


def with_table(text: str, say: Say) -> str:
    """A README with the table between its markers written anew; without markers as it is."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(say)}\n{END}{after}" if begin and end else text

"""The recorded figures of the bundled workflows, as text for their notes and for pages.

What `benchmarks/workflows.py` recorded is the only source: nothing here is written by hand.
"""

from collections.abc import Callable, Mapping
from typing import Any

from . import results
from .bench_rows import Say, english
from .table import markdown
from .workflows import WORKFLOWS

PART = "workflows"
KINDS = ("stock", "headroom")
Json = dict[str, Any]
Comparison = tuple[str, str, str]  # what was measured, without our nodes and with them


def recorded() -> Json:
    """The newest figures of every workflow on the simulated GPU, of the oldest ComfyUI."""
    parts = [part for part in results.recorded() if part.name == PART and part.simulated]
    return min(parts, key=lambda part: _numbers(part.comfyui)).result if parts else {}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".") if number.isdigit()]


def comparisons(found: Mapping[str, Any], say: Say = english) -> list[Comparison]:
    """What was compared for one workflow."""
    if "loop" in found:
        return _loop(found["loop"], say)
    left = _both(say("stays on the GPU after the prompt", "任务结束后仍留在 GPU 上"),
                 lambda kind: _mib(found[kind]["left_reserved_mib"]))
    if "same_capacity" not in found:
        return [left]
    peak = _both(say("reserved at most, on a GPU with room", "在空间充足的 GPU 上最多占用"),
                 lambda kind: _mib(found[kind]["peak_reserved_mib"]))
    least = _both(say("smallest GPU that completes it", "能完成的最小 GPU"),
                  lambda kind: _mib(found[kind]["smallest_capacity_mib"]))
    shared = found["same_capacity"]
    capacity = _mib(shared["capacity_mib"])
    at_it = _both(say(f"on a GPU of {capacity}", f"在 {capacity} 的 GPU 上"),
                  lambda kind: _outcome(shared[kind], say))
    return [least, peak, left] if at_it[1] == at_it[2] else [least, at_it]


def _loop(loop: Mapping[str, Any], say: Say) -> list[Comparison]:
    few, many = loop["prompts"]
    capacity = _mib(loop["capacity_mib"])

    def growth(kind: str) -> str:
        first, last = loop[f"{kind}_left_allocated_mib"]
        return _mib((last - first) / (many - few), digits=2)

    return [
        _both(say("each further prompt adds", "每多一条提示词增加"), growth),
        _both(
            say(f"{many} prompts on a GPU of {capacity}", f"{capacity} 的 GPU 上 {many} 条提示词"),
            lambda kind: _outcome(loop[f"{kind}_{many}_prompts"], say),
        ),
    ]


def _both(what: str, figure: Callable[[str], str]) -> Comparison:
    return (what, *map(figure, KINDS))  # type: ignore[return-value]


def _outcome(words: str, say: Say) -> str:
    if words == "completed":
        return say("completes", "完成")
    node = words.partition(":")[0]
    return say(f"out of memory in {node}", f"在 {node} 显存不足")


def _mib(amount: float, digits: int = 1) -> str:
    return f"{round(amount, digits):,}".removesuffix(".0") + " MiB"


def note_text(name: str) -> str:
    """What was measured, for the workflow's note; empty before the first measurement."""
    found = recorded().get(name)
    if not found:
        return ""
    flags = f" and {' '.join(found['flags'])}" if found["flags"] else ""
    return "\n".join([
        f"**Measured** on a simulated GPU, with small random-weight models{flags}, so the bytes "
        "are small and the difference is what counts:",
        "",
        "| | ComfyUI's own nodes | This workflow |",
        "|---|---|---|",
        *(f"| {' | '.join(compared)} |" for compared in comparisons(found)),
    ])


def with_figures(workflow: Json, name: str) -> Json:
    """Return a workflow with the new figures in its note, which is its first node."""
    if not note_text(name):
        return workflow
    first, *others = workflow["nodes"]
    before, _, rest = first["widgets_values"][0].partition("**Measured**")
    _, how, after = rest.partition("**How to use it.**")
    text = f"{before}{note_text(name)}\n\n{how}{after}"
    return {**workflow, "nodes": [{**first, "widgets_values": [text]}, *others]}


def table(say: Say) -> str:
    """The pages' table of all workflows."""
    head = (say("Workflow", "工作流"), say("Compared", "比较"),
            say("ComfyUI's own nodes", "ComfyUI 自带节点"), say("With Headroom", "使用 Headroom"))
    rows = []
    known = recorded()
    for name in (name for name in WORKFLOWS if name in known):
        for number, each in enumerate(comparisons(known[name], say)):
            rows.append((f"`{name}`" if number == 0 else "", *each))
    return markdown([head, *rows], "|---|---|---|---|")

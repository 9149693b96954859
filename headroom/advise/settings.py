"""Advice outside of the workflow: other processes on the card, settings of torch and ComfyUI.

Source: PyTorch's notes on CUDA memory management (PYTORCH_CUDA_ALLOC_CONF).
"""

from collections.abc import Iterator

from ..base.device import MIB, in_mib
from ..host.adapter import LEAVES_VRAM
from .case import Case
from .finding import Bounds, Finding
from .words import amounts

TORCH = "https://pytorch.org/docs/stable/notes/cuda.html#memory-management"
NEARLY_FULL = 0.85  # of the device
THRESHOLD = 0.8


def findings(case: Case) -> list[Finding]:
    """Return what to change outside of the workflow."""
    return [*_others(case), *_allocator(case)]


def _others(case: Case) -> Iterator[Finding]:
    """Yield the process that holds most of the card; and a reserve for it, if the run failed."""
    name, mib = max(case.around.others.items(), key=lambda item: item[1], default=("", 0.0))
    held = round(mib * MIB)
    if not held or case.top is None:
        return
    values = {"process": name, **amounts(held=held)}
    measured = {"process": name, "held_mib": in_mib(held)}
    yield Finding("other_process", Bounds(0, held), values, measured)
    flag = next(filter(case.around.has_flag, LEAVES_VRAM), None)
    if case.around.failure and flag is not None:
        whole = {**values, "flag": flag, "gib": round(mib / 1024 + 0.5, 1)}
        yield Finding("reserve", Bounds(0, held), whole, measured, cost="seconds")


def _allocator(case: Case) -> Iterator[Finding]:
    """Yield the setting that helps if torch keeps memory in pieces that it cannot use."""
    step = max(case.steps, key=lambda step: step.spare_bytes, default=None)
    known = case.around.allocator
    if step is None or known.get("backend") != "native" or known.get("expandable"):
        return
    values = {"node": step.name, "node_id": step.node_id, **amounts(spare=step.spare_bytes)}
    measured = {"node_id": step.node_id, "spare_mib": in_mib(step.spare_bytes)}
    if case.around.failure or (case.total_bytes and
                               case.peak_bytes > NEARLY_FULL * case.total_bytes):
        if known.get("can_expand"):  # one of the two: both are values of the same variable
            yield Finding("expandable_segments", Bounds(0, step.spare_bytes),
                          {**values, "source": TORCH}, measured)
        elif not known.get("threshold"):
            yield Finding("gc_threshold", Bounds(0, step.spare_bytes),
                          {**values, "threshold": THRESHOLD, "source": TORCH}, measured)

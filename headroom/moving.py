"""Move any value to the CPU and report what that took."""

from typing import Any

from .actions.to_cpu import to_cpu
from .measure.journal import note_action
from .measure.report import Report
from .measure.snapshot import snapshot

MAX_NAMED = 10


def move_to_cpu(value: Any) -> tuple[Any, Report]:
    """Return `value` with every tensor in RAM of its own, and the report.

    The value that came in is not changed. What still refers to it, ComfyUI's node cache first of
    all, keeps its device memory alive until it lets go.
    """
    before = snapshot()
    moved = to_cpu(value)
    named = [f"left as it is: {sentence}" for sentence in moved.left[:MAX_NAMED]]
    if len(moved.left) > MAX_NAMED:
        named.append(f"and {len(moved.left) - MAX_NAMED} more left as they are")
    report = Report(moved.text, tuple(named), before, snapshot())
    note_action("move to CPU", report.freed_mib, report.headline)
    return moved.value, report

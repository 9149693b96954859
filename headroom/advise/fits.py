"""The smallest GPU that a run would have fitted, as far as its record shows."""

from typing import Any

from ..base.device import MIB, in_mib
from .case import Case

CARDS_GIB = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 80, 96, 141)
USABLE = 0.97  # of its nominal size: the driver keeps the rest


def fits(case: Case) -> dict[str, Any] | None:
    """Return the range of the smallest size, and which sizes are certainly enough.

    The upper end is what was in use. The lower end is the same without idle models, which ComfyUI
    unloads if it must. With less than that weights are streamed, and the record cannot predict
    that. `at_least`: it needs more, because it ran out of memory or nobody saw its peak.
    """
    if case.top is None:
        return None
    failure = case.around.failure or {}
    lows = [step.peak.at_least - sum(held.high for held in case.idle(step).values())
            for step in case.steps]
    low, high = max(lows), max(step.at_most for step in case.steps)
    is_open = bool(failure) or any(step.peak.at_most is None for step in case.steps)
    if failure:
        low = high = max(high, case.peak_bytes + round((failure.get("asked_mib") or 0) * MIB))
    enough = [size for size in CARDS_GIB if size * 1024 * MIB * USABLE >= high]
    return {"smallest_mib": [in_mib(low), in_mib(high)], "kind": "measured", "at_least": is_open,
            "cards_gib": [] if failure else enough}

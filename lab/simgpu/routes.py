"""What the test-only HTTP routes answer; plain dictionaries, without a server.

GET  /simgpu/ledger      all figures (see Figures)
GET  /simgpu/fault       the armed fault and what it did, or null
GET  /simgpu/pending     {"free": whether ComfyUI has yet to act on a POST /free}
POST /simgpu/capacity    {"mib": N}: change the size of the device while it runs
POST /simgpu/other       {"mib": N}: bytes that another process holds
POST /simgpu/fault       {"at": k} or {"every": k}, "above_bytes", "times", "kind"; {} disarms
POST /simgpu/reset_peaks start the peaks again at the current figures
POST /simgpu/collect     run the garbage collector, then answer with the figures
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from .device import current
from .faults import Fault
from .ledger import MIB

Json = dict[str, Any]


def ledger() -> Json:
    """All figures of the device."""
    return asdict(current().figures())


def fault() -> Json | None:
    """The armed fault with its counts."""
    armed = current().fault
    return None if armed is None else armed.as_dict()


def arm(body: Json) -> Json | None:
    """Arm a fault; an empty body disarms. Raises TypeError or ValueError for bad settings."""
    current().fault = Fault(**body) if body else None
    return fault()


def set_capacity(body: Json) -> Json:
    """Change the capacity."""
    nbytes = _mib(body)
    with current().locked() as model:
        model.capacity_bytes = nbytes
    return ledger()


def set_other(body: Json) -> Json:
    """Change what another process holds."""
    nbytes = _mib(body)
    with current().locked() as model:
        model.other_process_bytes = nbytes
    return ledger()


def reset_peaks(body: Json) -> Json:
    """Reset the peaks."""
    with current().locked() as model:
        model.stats.reset_highest()
    return ledger()


def collect(body: Json) -> Json:
    """Collect garbage."""
    gc.collect()
    return ledger()


def _mib(body: Json) -> int:
    mib = body.get("mib")
    if isinstance(mib, bool) or not isinstance(mib, int | float) or mib < 0:
        raise ValueError(f'expected {{"mib": a number from 0 up}}, got {body}')
    return int(mib * MIB)


ACTIONS: dict[str, Callable[[Json], Any]] = {
    "capacity": set_capacity,
    "other": set_other,
    "fault": arm,
    "reset_peaks": reset_peaks,
    "collect": collect,
}

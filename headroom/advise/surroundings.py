"""What advice needs to know besides the record: other processes, torch's settings."""

import sys
from collections.abc import Mapping
from typing import Any

import torch

from ..base.device import MIB, computes_in_bf16, is_started
from ..base.environment import allocator_words
from ..host.adapter import current_host, has_flag
from ..measure.other_processes import other_processes
from ..measure.snapshot import used_devices
from .case import Surroundings


def of(failure: Mapping[str, Any] | None) -> Surroundings:
    """Return what is known now."""
    return Surroundings(failure, others(), allocator(), computes_in_bf16(), has_flag)


def others() -> dict[str, float]:
    """Return MiB of other processes on the cards by their names; empty if not known."""
    return {other.name: other.used_bytes / MIB
            for device in used_devices() for other in other_processes(device)}


def allocator() -> dict[str, Any]:
    """Return which allocator torch uses, and its settings that matter here.

    Dynamic VRAM does not see expandable segments, so it would leave no room for them.
    """
    if not torch.cuda.is_available() or not is_started("cuda"):
        return {}
    said, host = allocator_words(), current_host()
    has_pager = host is not None and host.has_dynamic_vram()
    return {
        "backend": torch.cuda.get_allocator_backend(),
        "expandable": "expandable_segments:true" in said,
        "can_expand": sys.platform == "linux" and torch.version.hip is None and not has_pager,
        "threshold": "garbage_collection_threshold:" in said,
    }

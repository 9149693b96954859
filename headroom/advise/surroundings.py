"""What advice needs to know besides the record: other processes, torch's settings."""

import sys
from collections.abc import Mapping
from typing import Any

import torch

from ..base.device import MIB, is_started, told
from ..base.environment import allocator_words
from ..host.adapter import has_flag
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
    """Return which allocator torch uses, and its settings that matter here."""
    if not torch.cuda.is_available() or not is_started("cuda"):
        return {}
    said = allocator_words()
    return {
        "backend": torch.cuda.get_allocator_backend(),
        "expandable": "expandable_segments:true" in said,
        "can_expand": sys.platform == "linux" and torch.version.hip is None,
        "threshold": "garbage_collection_threshold:" in said,
    }


def computes_in_bf16() -> bool:
    """Return whether the accelerator in use can compute in bfloat16."""
    if not torch.cuda.is_available() or not is_started("cuda"):
        return is_started("xpu")
    capability = told(torch.cuda.get_device_capability) or (0, 0)
    return torch.version.hip is not None or capability[0] >= 8

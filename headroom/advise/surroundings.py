"""What advice needs to know besides the record: other processes, torch's settings."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import torch

from ..base.device import MIB, computes_in_bf16, is_started
from ..host.adapter import current_host
from ..host.features import lost
from ..measure.other_processes import other_processes
from ..measure.snapshot import used_devices
from .case import Surroundings

SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def of(failure: Mapping[str, Any] | None) -> Surroundings:
    """Return what there is to know now."""
    return Surroundings(failure, others(), allocator(), computes_in_bf16(), flags())


def others() -> dict[str, float]:
    """Return MiB of other processes on the cards by their names; empty where nobody tells."""
    return {other.name: other.used_bytes / MIB
            for device in used_devices() for other in other_processes(device)}


def flags() -> frozenset[str]:
    """Return the flags of the command line that this ComfyUI has; none without a ComfyUI."""
    if current_host() is None or lost("files"):
        return frozenset()
    from ..host.flags import known_flags

    return known_flags()


def allocator() -> dict[str, Any]:
    """Return which allocator torch uses, and those of its settings that matter here."""
    if not torch.cuda.is_available() or not is_started("cuda"):
        return {}
    said = ",".join(os.environ.get(name, "") for name in SETTINGS).replace(" ", "").lower()
    return {
        "backend": torch.cuda.get_allocator_backend(),
        "expandable": "expandable_segments:true" in said,
        "can_expand": sys.platform == "linux" and torch.version.hip is None,
        "threshold": "garbage_collection_threshold:" in said,
    }

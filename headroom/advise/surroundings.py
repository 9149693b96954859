"""What advice needs to know besides the record: other processes, torch's settings."""

import os
from collections.abc import Mapping
from typing import Any

import psutil
import torch

from ..base.device import computes_in_bf16, is_started
from ..measure.nvml import other_processes_mib
from ..measure.snapshot import used_devices
from .case import Surroundings

SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def of(failure: Mapping[str, Any] | None) -> Surroundings:
    """Return what there is to know now."""
    return Surroundings(failure, others(), allocator(), computes_in_bf16())


def others() -> dict[str, float]:
    """Return MiB of other processes on the cards by name and number; empty where nobody tells."""
    found: dict[str, float] = {}
    for device in used_devices():
        for number, mib in other_processes_mib(device).items():
            found[f"{_name(number)} ({number})"] = mib
    return found


def _name(number: int) -> str:
    try:
        return str(psutil.Process(number).name())
    except psutil.Error:
        return "process"


def allocator() -> dict[str, Any]:
    """Return which allocator torch uses, and those of its settings that matter here."""
    if not torch.cuda.is_available() or not is_started("cuda"):
        return {}
    said = ",".join(os.environ.get(name, "") for name in SETTINGS).replace(" ", "").lower()
    return {
        "backend": torch.cuda.get_allocator_backend(),
        "expandable": "expandable_segments:true" in said,
        "threshold": "garbage_collection_threshold:" in said,
    }

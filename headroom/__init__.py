"""Headroom's memory package: measure, find, purge, offload; usable without ComfyUI.

    import headroom
    print(headroom.offload(pipeline).text)
"""

from .find import FoundModel, find_models
from .measure import DeviceMemory, Snapshot, snapshot
from .offload import offload
from .purge import purge
from .report import Report

__all__ = [
    "DeviceMemory",
    "FoundModel",
    "Report",
    "Snapshot",
    "find_models",
    "offload",
    "purge",
    "snapshot",
]

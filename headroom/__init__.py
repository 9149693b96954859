"""Headroom's memory package: measure, find, purge, offload, cast, sort; usable without ComfyUI.

    import headroom
    print(headroom.offload(pipeline).text)
"""

from .actions.offload import offload
from .actions.purge import purge
from .actions.to_cpu import OnCpu, to_cpu
from .cast.cast import Cast, cast
from .measure.report import Report
from .measure.snapshot import DeviceMemory, Snapshot, snapshot
from .models.find import FoundModel, find_models
from .sizes.sorting import Size
from .sizes.work import restore_order, sort_work

__all__ = [
    "Cast",
    "DeviceMemory",
    "FoundModel",
    "OnCpu",
    "Report",
    "Size",
    "Snapshot",
    "cast",
    "find_models",
    "offload",
    "purge",
    "restore_order",
    "snapshot",
    "sort_work",
    "to_cpu",
]

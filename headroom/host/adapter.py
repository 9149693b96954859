"""Find out whether ComfyUI is there and what it has, so that the package also works without it."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from ..base import device as devices
from ..base.node_types import NO_NODES, Registry
from .contract import CONTRACT
from .features import lost
from .symbols import broken

# The flags that leave VRAM to other programs. Where the first exists ComfyUI recommends that one.
LEAVES_VRAM = ("--vram-headroom", "--reserve-vram")


def is_in_comfyui() -> bool:
    """Return whether ComfyUI runs in this process, even if the adapter cannot work with it."""
    return "comfy.model_management" in sys.modules


def current_host() -> ModuleType | None:
    """Return the `host` module if ComfyUI runs in this process and the adapter works, else None.

    The package also serves plain Python scripts (diffusers, DiffSynth), so nothing is imported
    from ComfyUI unless ComfyUI is already there. None too for a ComfyUI that is too different.
    """
    if not is_in_comfyui() or lost("nodes"):
        return None
    from . import core as host

    return host


def guard_host() -> ModuleType | None:
    """Return `host.guard`, the part of the host adapter that OOM Guard needs, or None."""
    if current_host() is None or lost("guard"):
        return None
    from . import guard as host_guard

    return host_guard


def unrecorded() -> AbstractContextManager[Any]:
    """Return a context for memory that outlives the call of a model in which it is allocated.

    Newer ComfyUIs record what a block of layers allocates, and such memory would break the record.
    """
    host = guard_host()
    return nullcontext() if host is None else host.recording_paused()


def read_from_disk(patchers: Sequence[Any]) -> bool:
    """Return whether the weights of all of these come from disk, not RAM, as ComfyUI says."""
    if current_host() is None or not patchers:
        return False
    from .flags import reads_from_disk

    return all(map(reads_from_disk, patchers))


def return_cache() -> None:
    """Return cached blocks to the driver on every device in use; tensors in use stay.

    Call it after garbage collection: dead objects would keep their blocks. The next allocations
    then go to the driver again.
    """
    host = current_host()
    if host is not None:
        host.empty_cache()
    else:
        devices.empty_cache()


def do_not_run() -> list[Any]:
    """Return what makes ComfyUI skip every node that gets it, as a list; empty if it has none."""
    if not is_in_comfyui() or lost("sorter"):
        return []
    from comfy_execution.graph_utils import ExecutionBlocker

    return [ExecutionBlocker(None)]


def has_flag(flag: str) -> bool:
    """Return whether ComfyUI's command line has a flag such as "--reserve-vram"; False without it.

    Only this decides whether a flag is advised. False too for one that would not help: see
    flags.py.
    """
    if current_host() is None or lost("files"):
        return False
    from .flags import more_flags

    return flag in more_flags()


def has_cache_providers() -> bool:
    """Return whether ComfyUI has all that we use of its cache providers (0.17 and later).

    It looks for their symbols once, when the server starts.
    """
    return not lost("outputs") and not any(broken(CONTRACT["outputs"]))


def cache_flags() -> tuple[float, str | None]:
    """Return the value of --cache-ram (0: not set), and another cache flag that is set."""
    if current_host() is None or lost("files"):
        return 0.0, None
    from .flags import cache_flags as told

    return told()


def pack_of(class_type: str) -> str | None:
    """Return the pack that a node class comes from; None if that is not known."""
    if current_host() is None or lost("files"):
        return None
    from .packs import pack_of as found_pack

    return found_pack(class_type)


def pinned_bytes() -> int:
    """Return the bytes of RAM that ComfyUI has pinned; 0 without ComfyUI, or if it cannot tell."""
    if current_host() is None:
        return 0
    from .spare import pinned_bytes as pinned

    return pinned()


def host_registry() -> Registry:
    if lost("files"):
        return NO_NODES
    from .node_types import HostRegistry

    return HostRegistry()

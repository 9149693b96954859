"""Switch the simulated GPU on in this process, and off again."""

from __future__ import annotations

from typing import Any

from . import device as devices
from .device import SimDevice
from .patches import Patches

_active: list[tuple[Patches, Any]] = []


def switch_on(capacity_bytes: int) -> SimDevice:
    """Make `cuda:0` the simulated GPU for all of this process; returns it.

    Call it before anything that asks torch for a GPU at import, ComfyUI above all.
    """
    from . import constructors, cuda_api, factories, indexing, ops

    assert indexing and ops  # imported for what they register
    if _active:
        raise RuntimeError("the simulated GPU is switched on already")
    device = SimDevice(capacity_bytes)
    devices.set_current(device)
    patches = Patches()
    cuda_api.apply(patches)
    constructors.apply(patches)
    _active.append((patches, factories.register()))
    return device


def switch_off() -> None:
    """Put torch back as it was; tensors of the device must not be used any more."""
    patches, library = _active.pop()
    library._destroy()
    patches.undo()
    devices.set_current(None)

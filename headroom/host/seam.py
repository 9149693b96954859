"""Is there a ComfyUI in this process? The one question the package asks before using `host`."""

import sys
from types import ModuleType

from ..base import device as devices


def current_host() -> ModuleType | None:
    """Return the `host` module where ComfyUI is running in this process, else None.

    The package also serves plain Python scripts (diffusers, DiffSynth), so nothing is imported
    from ComfyUI unless ComfyUI is already there.
    """
    if "comfy.model_management" not in sys.modules:
        return None
    from . import core as host

    return host


def guard_host() -> ModuleType | None:
    """Return the `host_guard` module, the part of the seam that OOM Guard needs, or None."""
    if current_host() is None:
        return None
    from . import guard as host_guard

    return host_guard


def return_cache() -> None:
    """Return cached blocks on every device in use; what is still referenced stays.

    Call after the garbage collection: dead objects would keep their blocks. The price is that
    the next allocations go to the driver again.
    """
    host = current_host()
    if host is not None:
        host.empty_cache()
    else:
        devices.empty_cache()

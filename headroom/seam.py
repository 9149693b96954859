"""Is there a ComfyUI in this process? The one question the package asks before using `host`."""

import sys
from types import ModuleType


def current_host() -> ModuleType | None:
    """Return the `host` module where ComfyUI is running in this process, else None.

    The package also serves plain Python scripts (diffusers, DiffSynth), so nothing is imported
    from ComfyUI unless ComfyUI is already there.
    """
    if "comfy.model_management" not in sys.modules:
        return None
    from . import host

    return host

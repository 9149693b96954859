"""A live reserve: VRAM that dynamic VRAM leaves to others, where comfy-aimdo lets it be set.

From 0.6.0 on comfy_aimdo.control has `set_simple_vram_headroom(bytes)` and its getter: one value
for the process, at least 256 MiB in effect, which acts at the next page fault or allocation and
evicts pages only. (https://github.com/Comfy-Org/comfy-aimdo)
"""

import sys
from types import ModuleType

from .features import lost

CONTROL = "comfy_aimdo.control"
FUNCTIONS = ("get_simple_vram_headroom", "set_simple_vram_headroom")


def reserve_bytes(has_dynamic_vram: bool) -> int | None:
    """Return the bytes that are left to others now; None where that cannot be set."""
    control = _control(has_dynamic_vram)
    return None if control is None else int(control.get_simple_vram_headroom())


def set_reserve_bytes(has_dynamic_vram: bool, wanted_bytes: int) -> int | None:
    """Leave so many bytes to others from now on; return what is in effect, None as above."""
    control = _control(has_dynamic_vram)
    if control is None:
        return None
    control.set_simple_vram_headroom(wanted_bytes)
    return int(control.get_simple_vram_headroom())


def _control(has_dynamic_vram: bool) -> ModuleType | None:
    """Return the module that ComfyUI has started itself, where it has both functions."""
    is_offered = has_dynamic_vram and not lost("reserve")
    control = sys.modules.get(CONTROL) if is_offered else None
    return control if all(hasattr(control, name) for name in FUNCTIONS) else None

"""VRAM that comfy-aimdo, ComfyUI's dynamic VRAM, keeps free of its pages; it can change at runtime.

comfy-aimdo counts what this process has allocated from the driver: pages, and torch's memory as far
as it comes by cuMemAlloc or cuMemAllocAsync. It frees pages, at the next page fault or allocation,
before this is more than the card's memory less one value for the process, at least 256 MiB. From
0.5.3 on comfy_aimdo.control has `set_simple_vram_headroom(bytes)` and its getter; before, `init`
sets the value if it has run already. (https://github.com/Comfy-Org/comfy-aimdo)
"""

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..base.device import MIB
from .features import lost

CONTROL = "comfy_aimdo.control"
LEAST_BYTES = 256 * MIB
_wishes: dict[str, int] = {}  # bytes, by who asks: left to others, or a ceiling


def has_dynamic_vram() -> bool:
    try:
        import comfy.memory_management as memory_management
    except ImportError:
        return False
    return bool(getattr(memory_management, "aimdo_enabled", False))


def reserve_bytes() -> int | None:
    """Return the VRAM that is left to others now; None if this ComfyUI cannot set it."""
    control = _control()
    if control is None:
        return None
    get = getattr(control, "get_simple_vram_headroom", None)
    return int(get()) if get is not None else _wanted_bytes()


def left_bytes(others_bytes: int) -> int:
    """Return the VRAM that ComfyUI leaves unused beside others which use `others_bytes` now.

    Its flags say it in GiB. What dynamic VRAM leaves may be used by others; the value of
    --vram-headroom stays free beside them, and so does that of --reserve-vram without dynamic VRAM.
    """
    if not has_dynamic_vram():
        return others_bytes + _flag_bytes("reserve_vram")
    return max(others_bytes, reserve_bytes() or 0) + _flag_bytes("vram_headroom")


def set_reserve_bytes(wanted_bytes: int) -> int | None:
    """Leave `wanted_bytes` to others from now on; return what is in effect, None as above."""
    return reserve_bytes() if _wish("others", wanted_bytes) else None


def keep_from_pages(kept_bytes: int) -> bool:
    """Keep `kept_bytes` of each card free of pages in any case; False: not possible."""
    return _wish("ceiling", kept_bytes)


def _wish(whose: str, wanted_bytes: int) -> bool:
    control = _control()
    if control is not None:
        _wishes[whose] = wanted_bytes
        _setter(control)(_wanted_bytes())
    return control is not None


def _wanted_bytes() -> int:
    """Return the larger wish; without one for others, the value ComfyUI was started with counts."""
    others = _wishes.get("others", _flag_bytes("reserve_vram"))
    return max(LEAST_BYTES, others, _wishes.get("ceiling", 0))


def _control() -> ModuleType | None:
    """Return the module that ComfyUI has started itself, if it has a function for the value."""
    is_offered = has_dynamic_vram() and not lost("reserve")
    control = sys.modules.get(CONTROL) if is_offered else None
    return None if control is None or _setter(control) is None else control


def _setter(control: ModuleType) -> Any:
    setter: Callable[[int], object] | None = getattr(control, "set_simple_vram_headroom", None)
    if setter is not None:
        return setter if hasattr(control, "get_simple_vram_headroom") else None
    init: Any = getattr(control, "init", None)
    known = inspect.signature(init).parameters if init is not None else {}
    if "simple_vram_headroom" not in known or getattr(control, "lib", None) is None:
        return None
    # `init` takes a second value: the one that ComfyUI's main.py has set.
    pressure = not getattr(_flags(), "disable_nvml_pressure", False)
    also = {"nvml_pressure": pressure} if "nvml_pressure" in known else {}
    return lambda wanted: init(simple_vram_headroom=wanted, **also)


def _flag_bytes(name: str) -> int:
    return int((getattr(_flags(), name, None) or 0) * 1024 * MIB)


def _flags() -> Any:
    return getattr(sys.modules.get("comfy.cli_args"), "args", None)

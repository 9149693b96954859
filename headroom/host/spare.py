"""RAM that ComfyUI gives back by functions of its own, where it has them."""

import comfy.model_management as mm
import psutil

from .features import lost


def release_cached_results(wanted_bytes: int) -> None:
    """Let ComfyUI's cache give up results of other workflows, so that so much more RAM is left.

    Nothing on a host without a function for it. In the thread of a prompt, or while none runs.
    """
    try:
        from comfy.memory_management import extra_ram_release
    except ImportError:
        return
    if lost("spare"):
        return
    extra_ram_release(psutil.virtual_memory().available + wanted_bytes)


def pinned_bytes() -> int:
    """Return the bytes of RAM that ComfyUI has pinned, 0 where it does not count them."""
    return int(getattr(mm, "TOTAL_PINNED_MEMORY", 0))


def release_idle_pins(wanted_bytes: int) -> None:
    """Let ComfyUI give back so much pinned memory that no model uses now, where it can do that."""
    free_pins = getattr(mm, "free_pins", None)
    if free_pins is not None and not lost("spare"):
        free_pins(wanted_bytes)

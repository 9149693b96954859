"""RAM that ComfyUI frees by functions of its own, if it has them."""

import comfy.model_management as mm
import torch

from .features import lost


def release_cached_results(wanted_bytes: int) -> None:
    """Let ComfyUI's cache free results of other workflows, so that `wanted_bytes` more RAM is left.

    It does nothing on a ComfyUI without such a function. Call it in the thread of a prompt, or
    while none runs.
    """
    try:
        from comfy.memory_management import extra_ram_release
    except ImportError:
        return
    if lost("spare"):
        return
    # By ComfyUI's own count, as its cache counts: newer ones know the limit of a container.
    extra_ram_release(mm.get_free_memory(torch.device("cpu")) + wanted_bytes)


def pinned_bytes() -> int:
    """Return the bytes of RAM that ComfyUI has pinned; 0 if it does not count them."""
    return int(getattr(mm, "TOTAL_PINNED_MEMORY", 0))


def release_idle_pins(wanted_bytes: int) -> None:
    """Let ComfyUI free so much pinned memory that no model uses now, if it can do that."""
    free_pins = getattr(mm, "free_pins", None)
    if free_pins is not None and not lost("spare"):
        free_pins(wanted_bytes)

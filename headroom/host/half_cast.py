"""Layers whose cast a failed call did not finish, under dynamic VRAM.

ComfyUI 0.33.0 stores on a layer what its cast has begun (`_prefetch`, in comfy/ops.py) until the
cast is done. If memory runs out in between, it stays there, and the next call of the layer uses it:
an address that was freed long ago (a crash on the fake driver), or a page without the LoRA.
"""

import importlib
from collections.abc import Iterable
from typing import Any


def half_cast(patchers: Iterable[Any]) -> list[Any]:
    """Return the layers of dynamic models with an unfinished cast. Walks over all modules."""
    return [module for patcher in patchers for module in patcher.model.modules()
            if "_prefetch" in vars(module)]


def is_incomplete_page(module: Any) -> bool:
    """Return whether the layer's page is marked as complete but is not."""
    begun = vars(module)["_prefetch"]
    signature = begun.get("signature") if isinstance(begun, dict) else None
    return (signature is not None and not begun.get("resident")
            and getattr(module, "_v_signature", None) is signature)


def forget(modules: Iterable[Any]) -> None:
    """Discard the unfinished casts, with ComfyUI's own function for layers that were cast ahead."""
    try:
        module = importlib.import_module("comfy.model_prefetch")
    except ImportError:
        return
    clean_up = getattr(module, "cleanup_prefetched_modules", None)
    if clean_up is not None:
        for layer in modules:
            clean_up(layer, [layer])

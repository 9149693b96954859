"""Parameters that ComfyUI leaves on the GPU when it unloads a model under dynamic VRAM."""

import inspect
from typing import Any

from ..base.device import same_device


def bring_back(patcher: Any) -> None:
    """Let ComfyUI return the parameters of an unloaded dynamic patcher that are still on its GPU.

    While it lists what to load (0.33.0: `_load_list`) it moves those of modules that hold others
    with parameters, a CLIP's `logit_scale` for one, and notes that nowhere; the same function moves
    them wherever it is told. They are some bytes a model, each in a segment of 2 to 32 MiB. The
    next load moves them again. Nothing happens where that function is not as it was.
    """
    device = patcher.load_device
    if not any(same_device(one.device, device) for one in patcher.model.parameters()):
        return
    listing = getattr(patcher, "_load_list", None)
    if listing is not None and "default_device" in inspect.signature(listing).parameters:
        listing(default_device=patcher.offload_device)

"""Parameters that ComfyUI leaves on the GPU when it unloads a model under dynamic VRAM."""

import inspect
from typing import Any

from ..base.device import same_device


def bring_back(patcher: Any) -> None:
    """Let ComfyUI return the parameters of an unloaded dynamic patcher that are still on its GPU.

    While ComfyUI lists what to load (0.33.0: `_load_list`) it moves parameters of modules that
    contain other modules with parameters, for instance a CLIP's `logit_scale`, and keeps no note of
    it. The same function can move them back. They are some bytes for each model, each in a segment
    of 2 to 32 MiB. The next load moves them to the GPU again. If that function has changed, nothing
    happens.
    """
    device = patcher.load_device
    if not any(same_device(one.device, device) for one in patcher.model.parameters()):
        return
    listing = getattr(patcher, "_load_list", None)
    if listing is not None and "default_device" in inspect.signature(listing).parameters:
        listing(default_device=patcher.offload_device)

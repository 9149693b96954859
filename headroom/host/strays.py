"""Parameters that ComfyUI leaves on the GPU when it unloads a model under dynamic VRAM."""

from typing import Any

from ..base.device import same_device


def bring_back(patcher: Any) -> None:
    """Return the parameters of an unloaded dynamic patcher that are still on its GPU to RAM.

    While ComfyUI lists what to load (0.33.0: `_load_list`) it moves those of modules that hold
    others with parameters, a CLIP's `logit_scale` for one, and notes that nowhere. They are some
    bytes a model, each in a segment of 2 to 32 MiB. The next load moves them again.
    """
    for parameter in patcher.model.parameters():
        if same_device(parameter.device, patcher.load_device):
            parameter.data = parameter.data.to(patcher.offload_device)

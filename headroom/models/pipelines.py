"""Move diffusers and DiffSynth pipelines off the device, by their own API first."""

from typing import Any

import torch

from ..base.said import joined, said
from ..base.tensors import module_bytes
from .find import pipeline_modules
from .lazy_restore import restore_on_use


def offload_pipeline(pipeline: Any) -> str:
    """Move every component of `pipeline` to the CPU and return how it was done.

    A diffusers pipeline with model offload keeps the last component on the device until the next
    one runs, so after `encode_prompt` alone the text encoder stays there. Its own
    `maybe_free_model_hooks` moves it away and sets the hooks again. What is then still on the
    device is moved with `.to("cpu")`, and returns when its next input is on the device. Components
    under sequential or group offload are left to their hooks: between calls they have no weights on
    the device.
    """
    steps: list[str] = []
    # DiffSynth loads the models in a list; here the list is empty.
    for name, loaded in (("maybe_free_model_hooks", ()), ("load_models_to_device", ([],))):
        release = getattr(pipeline, name, None)
        if callable(release):
            release(*loaded)
            steps.append(said("its own {name}", name=name))
            break
    moved = [name for name, part in pipeline_modules(pipeline).items() if _move(part)]
    if moved:
        steps.append(said(".to('cpu') for {parts}", parts=", ".join(moved)))
    return joined(", ", steps)


def _move(module: torch.nn.Module) -> bool:
    """Move one component if it still holds device memory and no library manages it."""
    if has_offload_hook(module) or not any(name != "cpu" for name in module_bytes([module])):
        return False
    restore_on_use(module)
    module.to("cpu")
    return True


def has_offload_hook(module: torch.nn.Module) -> bool:
    """Return whether accelerate, diffusers or DiffSynth moves this module itself."""
    marks = ("_hf_hook", "_diffusers_hook", "vram_management_enabled")
    return any(getattr(part, mark, None) for part in module.modules() for mark in marks)

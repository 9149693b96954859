"""Models that ComfyUI does not manage: off the device, and back when they are used.

Pipelines of diffusers and DiffSynth are moved by their own API first.
"""

import weakref
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from ..base.said import joined, said
from ..base.tensors import module_bytes, module_tensors, tensors_within
from .find import pipeline_modules

_armed: weakref.WeakSet[Any] = weakref.WeakSet()


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
    moved = [name for name, part in pipeline_modules(pipeline).items() if move_away(part)]
    if moved:
        steps.append(said(".to('cpu') for {parts}", parts=", ".join(moved)))
    return joined(", ", steps)


def move_away(module: torch.nn.Module) -> bool:
    """Move a module to the CPU if it still has device memory and no library manages it."""
    if has_offload_hook(module) or is_shell(module) or not any(
            name != "cpu" for name in module_bytes([module])):
        return False
    restore_on_use(module)
    module.to("cpu")
    return True


def has_offload_hook(module: torch.nn.Module) -> bool:
    """Return whether accelerate, diffusers or DiffSynth moves this module itself."""
    marks = ("_hf_hook", "_diffusers_hook", "vram_management_enabled")
    return any(getattr(part, mark, None) for part in module.modules() for mark in marks)


def is_shell(module: torch.nn.Module) -> bool:
    """Return whether weights of `module` have no values, and torch cannot move it as a whole.

    Packs that load fp8 and GGUF files themselves put the values in at each use (WanVideoWrapper).
    """
    return any(tensor.device.type == "meta" for _, tensor in module_tensors(module))


def restore_on_use(module: torch.nn.Module) -> None:
    """Prepare `module` to return to its present device when it next receives a tensor there.

    For models that ComfyUI does not manage, because nobody else would move them back. Any part of
    the module triggers it, so `encode` methods that skip `forward` work too. The hooks remove
    themselves at the first use, even if the module did not have to move; after that they cost
    nothing.
    """
    home = next((tensor.device for _, tensor in module_tensors(module)), None)
    if home is None or home.type == "cpu":
        return
    handles: list[RemovableHandle] = []

    def return_home(_part: torch.nn.Module, args: Any, kwargs: Any) -> None:
        wanted = next((t.device for t in tensors_within([args, kwargs])), None)
        for handle in handles:
            handle.remove()
        first = next((tensor.device for _, tensor in module_tensors(module)), None)
        if wanted == home != first:  # else its owner has moved back as much of it as it wants there
            module.to(home)

    _armed.add(return_home)
    for part in module.modules():
        handles.append(part.register_forward_pre_hook(return_home, with_kwargs=True))


def is_restore_hook(hook: Any) -> bool:
    """Return whether `hook` moves a module back, and belongs to this module and not to a copy."""
    return hook in _armed

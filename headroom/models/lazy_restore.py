"""Let a module that was moved to the CPU return to its device when it is used there again."""

import weakref
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from ..base.tensors import module_tensors, tensors_within

_armed: weakref.WeakSet[Any] = weakref.WeakSet()


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
        handles.clear()
        first = next((tensor.device for _, tensor in module_tensors(module)), None)
        if wanted == home != first:  # else its owner has moved back as much of it as it wants there
            module.to(home)

    _armed.add(return_home)
    for part in module.modules():
        handles.append(part.register_forward_pre_hook(return_home, with_kwargs=True))


def is_restore_hook(hook: Any) -> bool:
    """Return whether `hook` moves a module back, and belongs to this module and not to a copy."""
    return hook in _armed

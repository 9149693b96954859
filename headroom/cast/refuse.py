"""Refuse what cannot be cast correctly, by name, before anything is copied or unloaded."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ..base.tensors import storage_key
from .rules import Wanted


def refuse_uncastable(module: torch.nn.Module) -> None:
    """Raise ValueError with the part's name if a private copy could not run, or be private.

    Compiled and scripted modules have the old weights in their own code; sparse weights cannot have
    another dtype; weights without a shape have no values.
    """
    _refuse(module, _reasons(module))


def refuse_second_names(module: torch.nn.Module, wanted: Iterable[Wanted]) -> None:
    """Raise ValueError if something in `module` that is no weight uses a weight's memory.

    Its copy would keep the values in the old dtype, and would no longer follow the weight.
    """
    changed = {storage_key(item.parameter): item.name for item in wanted
               if item.source != item.target}
    changed.pop(None, None)
    _refuse(module, (f"{name} is a second name for the memory of its {changed[key]}"
                     for name, tensor in _beside_parameters(module)
                     if (key := storage_key(tensor)) in changed))


def _refuse(module: torch.nn.Module, reasons: Iterator[str]) -> None:
    for reason in reasons:
        raise ValueError(
            f"Cast bf16 cannot cast this {type(module).__name__}: {reason}; connect a plain model "
            "as its loader gives it, before nodes that compile or change it."
        )


def _beside_parameters(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the buffers, and the attributes that are or contain tensors; no parameters."""
    parameters = {id(parameter) for parameter in module.parameters()}
    for prefix, part in module.named_modules():
        for name, value in [*part._buffers.items(), *vars(part).items()]:
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            for tensor in _one_level(value):
                if isinstance(tensor, torch.Tensor) and id(tensor) not in parameters:
                    yield f"{prefix}.{name}" if prefix else name, tensor


def _one_level(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else (value,)


def _reasons(module: torch.nn.Module) -> Iterator[str]:
    for prefix, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            yield f"{prefix or 'it'} is TorchScript, which cannot be copied in another dtype"
        if hasattr(part, "_orig_mod"):
            yield f"{prefix or 'it'} is compiled over the old weights"
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if is_lazy(tensor):
            yield f"{name} has no shape before its first use"
        elif tensor.layout != torch.strided:
            yield f"{name} is a {str(tensor.layout).removeprefix('torch.')} tensor"

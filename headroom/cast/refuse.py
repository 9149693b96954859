"""What cannot be cast rightly, found before anything is copied or unloaded, and named."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ..base.tensors import storage_key
from .rules import Wanted


def refuse_uncastable(module: torch.nn.Module) -> None:
    """Raise ValueError, naming the part, where a private copy could not run or would be no copy.

    Compiled and scripted modules hold the old weights in code of their own; sparse weights have no
    other dtype to be cast to; weights that were never given a shape have no values.
    """
    _refuse(module, _reasons(module))


def refuse_second_names(module: torch.nn.Module, wanted: Iterable[Wanted]) -> None:
    """Raise ValueError where something in `module` that is no weight lies in a weight's memory.

    A copy of it would go on with the values of the old dtype, whatever becomes of the weight.
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
    """Yield the buffers and the attributes that are tensors, or hold some, but no parameters."""
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

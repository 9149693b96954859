"""What cannot be cast rightly, found before anything is copied or unloaded, and named."""

from collections.abc import Iterator

import torch
from torch.nn.parameter import is_lazy


def refuse_uncastable(module: torch.nn.Module) -> None:
    """Raise ValueError, naming the part, where a private copy could not run or would be no copy.

    Compiled and scripted modules hold the old weights in code of their own; sparse weights have no
    other dtype to be cast to; weights that were never given a shape have no values.
    """
    for reason in _reasons(module):
        raise ValueError(
            f"Cast bf16 cannot cast this {type(module).__name__}: {reason}; connect a plain model "
            "as its loader gives it, before nodes that compile or change it."
        )


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

"""Let layers of different dtypes work in one module: each layer casts its input to its own dtype.

ComfyUI's layers can do that by themselves where `comfy_cast_weights` is on (text encoders); all
others would stop with "mat1 and mat2 must have the same dtype".
"""

from collections.abc import Mapping
from typing import Any

import torch

from .dtypes import FLOATS
from .forward_dtypes import tensors_beside, widens
from .rules import DtypeOf, layers, own_dtype


class _CastInputs:
    """A forward pre-hook: floating-point tensor arguments in the layer's dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, _layer: torch.nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return _in_dtype(args, self.dtype), _in_dtype(kwargs, self.dtype)


class _CastOutput:
    """A forward hook: a kept layer hands its result on in the dtype of the rest."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, _layer: torch.nn.Module, _args: Any, output: Any) -> Any:
        return _in_dtype(output, self.dtype)


def join_layers(
    module: torch.nn.Module, compute: torch.dtype, dtype_of: DtypeOf = own_dtype
) -> None:
    """Arm every layer of `module` to take inputs of any dtype; replaces an earlier arming.

    A layer that was kept in another dtype than `compute` hands its output on in `compute`. Layers
    that cast their own weights to the input, as ComfyUI's can, are left alone. Cost: one Python
    call a layer, and a copy of the activations where dtypes differ.
    """
    for part in module.modules():
        forget(part)
    for _, layer in layers(module):
        dtype = _layer_dtype(layer, dtype_of)
        if dtype is None or getattr(layer, "comfy_cast_weights", False):
            continue
        layer.register_forward_pre_hook(_CastInputs(dtype), with_kwargs=True)
        if dtype != compute:
            layer.register_forward_hook(_CastOutput(compute))


def forget(part: torch.nn.Module) -> None:
    """Remove what `join_layers` put on one module."""
    for hooks in (part._forward_pre_hooks, part._forward_hooks):
        for key, hook in list(hooks.items()):
            if isinstance(hook, (_CastInputs, _CastOutput)):
                del hooks[key]
                part._forward_pre_hooks_with_kwargs.pop(key, None)


def _layer_dtype(part: torch.nn.Module, dtype_of: DtypeOf) -> torch.dtype | None:
    for name, parameter in part.named_parameters():
        dtype = dtype_of(part, name, parameter)
        if dtype in FLOATS:
            return dtype
    # Without weights it is a layer for the float tensors that it holds.
    beside = (tensor for tensor in tensors_beside(part) if tensor is not None and widens(tensor))
    return next((tensor.dtype for tensor in beside), None)


def _in_dtype(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype in FLOATS and value.dtype != dtype else value
    if isinstance(value, Mapping):
        changed = {key: _in_dtype(item, dtype) for key, item in value.items()}
        return changed if type(value) is dict else value
    if type(value) in (tuple, list):
        return type(value)(_in_dtype(item, dtype) for item in value)
    return value

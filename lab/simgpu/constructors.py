"""Replacements for those Python functions of torch that would call a real device driver."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from .ops import attention_on_device
from .patches import Patches
from .tensor import DEVICE, SimTensor

_HOST = torch.device("cpu")


def on_device(device: Any) -> bool:
    """Whether a `device` argument in any of its forms means the simulated one."""
    if isinstance(device, str):
        return device.startswith(DEVICE.type)
    if isinstance(device, int) and not isinstance(device, bool):
        return device == DEVICE.index
    return isinstance(device, torch.device) and device.type == DEVICE.type


def apply(patches: Patches) -> None:
    """Replace the entry points."""
    for name in ("tensor", "as_tensor", "asarray"):
        patches.set(torch, name, _made_on_host(getattr(torch, name)))
    for name in ("empty", "empty_like", "empty_strided", "zeros"):
        patches.set(torch, name, _never_pinned(getattr(torch, name)))
    patches.set(torch, "load", _load)
    patches.set(torch, "nonzero", _nonzero)
    patches.set(torch, "Generator", Generator)
    patches.set(torch.Tensor, "to", _to)
    patches.set(torch.Tensor, "cuda", _cuda)
    patches.set(torch.Tensor, "pin_memory", lambda tensor, device=None: tensor)
    patches.set(torch.nn.Parameter, "__new__", staticmethod(_new_parameter))
    functional = torch.nn.functional
    attention = functional.scaled_dot_product_attention
    patches.set(functional, "scaled_dot_product_attention", attention_on_device(attention))
    patches.set(torch, "_has_compatible_shallow_copy_type", _has_compatible_shallow_copy_type)


def _made_on_host(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make` for data that goes to the device: it is made on the CPU, then copied."""

    @functools.wraps(make)
    def build(data: Any, *args: Any, device: Any = None, **options: Any) -> Any:
        if isinstance(data, list | tuple):
            data = _on_host(data)
        if device is None and not isinstance(data, SimTensor):
            return make(data, *args, **options)
        if device is not None and not on_device(device):
            data = data.to(device) if isinstance(data, SimTensor) else data
            return make(data, *args, device=device, **options)
        if isinstance(data, SimTensor):
            return _from_device(make, data, *args, **options)
        return make(data, *args, device=_HOST, **options).to(DEVICE)

    return build


def _on_host(items: Any) -> Any:
    """Nested lists with the device tensors in them replaced; PyTorch reads them one by one."""
    if isinstance(items, list | tuple):
        return [_on_host(item) for item in items]
    return items._cpu if isinstance(items, SimTensor) else items


def _never_pinned(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make` without pinned memory, which only a real driver has."""

    @functools.wraps(make)
    def build(*args: Any, pin_memory: bool = False, **options: Any) -> Any:
        return make(*args, **options)

    return build


def _from_device(make: Any, data: SimTensor, dtype: Any = None, **options: Any) -> Any:
    if make.__name__ == "tensor" or options.get("copy"):
        return data.detach().to(dtype=dtype or data.dtype, copy=True)
    return data.to(dtype=dtype or data.dtype)


def _with_index(value: Any) -> Any:
    if isinstance(value, bool) or isinstance(value, torch.Tensor):
        return value
    return DEVICE if on_device(value) else value


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """`Tensor.to` with the device named in full; PyTorch asks the driver for a missing index."""
    if "device" in kwargs:
        kwargs["device"] = _with_index(kwargs["device"])
    elif args:
        args = (_with_index(args[0]), *args[1:])
    if self.requires_grad and torch.is_grad_enabled():
        # Autograd would ask the driver about a result on the device.
        return _without_gradient(self, *args, **kwargs)
    return torch._C.TensorBase.to(self, *args, **kwargs)


def _without_gradient(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        moved = torch._C.TensorBase.to(tensor, *args, **kwargs)
    if isinstance(moved, SimTensor):
        return moved
    # Not to the device: PyTorch does it itself.
    return moved if moved is tensor else torch._C.TensorBase.to(tensor, *args, **kwargs)


def _cuda(self: torch.Tensor, device: Any = None, non_blocking: bool = False, **options: Any):
    return self.to(DEVICE, non_blocking=non_blocking, **options)


def _load(f: Any, map_location: Any = None, **options: Any) -> Any:
    if not on_device(map_location):
        return _plain_load(f, map_location, **options)
    loaded = _plain_load(f, _HOST, **options)
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to(DEVICE), loaded)


_plain_load = torch.load


def _nonzero(input: torch.Tensor, *, out: Any = None, as_tuple: bool = False) -> Any:
    if isinstance(input, SimTensor) and out is None:
        return input.nonzero(as_tuple=as_tuple)
    return _plain_nonzero(input, as_tuple=True) if as_tuple else _plain_nonzero(input, out=out)


_plain_nonzero = torch.nonzero
_plain_new_parameter = torch.nn.Parameter.__new__


def _new_parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
    # Moving a module makes new parameters here, where a real device would change the old ones in
    # place; torch refuses a gradient for a tensor made under inference_mode once that has ended.
    if isinstance(data, torch.Tensor) and data.is_inference():
        requires_grad = requires_grad and torch.is_inference_mode_enabled()
    return _plain_new_parameter(cls, data, requires_grad)


def _has_compatible_shallow_copy_type(input: torch.Tensor, from_: torch.Tensor) -> bool:
    """No tensor can turn into a wrapper in place, so modules must take new parameters."""
    if isinstance(input, SimTensor) or isinstance(from_, SimTensor):
        return isinstance(input, SimTensor) and isinstance(from_, SimTensor)
    return _plain_compatible(input, from_)


_plain_compatible = torch._has_compatible_shallow_copy_type


class _AnyGenerator(type(torch.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _PlainGenerator)


_PlainGenerator = torch.Generator


class Generator(_PlainGenerator, metaclass=_AnyGenerator):
    """A random generator; for the simulated device it draws on the CPU."""

    def __new__(cls, device: Any = _HOST) -> Generator:
        return super().__new__(cls, _HOST if on_device(device) else device)

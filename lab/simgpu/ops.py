"""Operations with a rule of their own: copies between devices, factories, fast CPU kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .device import current
from .dispatch import INDEXING, KERNELS, SPECIAL, WITHOUT_GRADIENT, kernel_of, unwrap
from .tensor import DEVICE, SimTensor, charged

aten = torch.ops.aten


def _to_copy(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A real copy with another dtype, layout or device."""
    source, target = args[0], kwargs.get("device") or DEVICE
    if target.type == "meta":
        return func(source._cpu, **kwargs)
    on_host = target.type == "cpu"
    if on_host and not source.is_contiguous():
        current().charge(_contiguous_bytes(source))
    copied = kernel_of(func)(source._cpu, **{**kwargs, "device": torch.device("cpu")})
    return copied if on_host else charged(copied)


def _copy(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Copy values into a tensor, also between the CPU and the device."""
    target, source = args[0], args[1]
    here, there = type(target) is SimTensor, type(source) is SimTensor
    if here != there and not _same_layout(target, source):
        # CUDA makes its side contiguous first, in device memory.
        side = target if here else source
        if not side.is_contiguous():
            current().charge(_contiguous_bytes(side))
    bases: list[Any] = []
    plain = [unwrap(value, bases, host_too=True) for value in args]
    kernel_of(func)(*plain, **kwargs)
    return target


def _same_layout(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.stride() == other.stride()


def _contiguous_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _not_pinned(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return False


SPECIAL[aten._to_copy.default] = _to_copy
SPECIAL[aten.copy_.default] = _copy
SPECIAL[aten.is_pinned.default] = _not_pinned

WITHOUT_GRADIENT |= {aten._to_copy.default, aten.clone.default, aten.is_pinned.default}
WITHOUT_GRADIENT |= {aten._has_compatible_shallow_copy_type.default}  # `Module.to`, same device

INDEXING |= {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
INDEXING |= {aten._index_put_impl_.default, aten._unsafe_index.Tensor}


_HALF = (torch.float16, torch.bfloat16)


def in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel` with float16 or bfloat16 operands computed in float32 and rounded back.

    The result is the more exact one and the same on every CPU; if the CPU has no instructions for
    the narrow types, it is more than 100 times faster.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        dtype = next(value.dtype for value in args if isinstance(value, torch.Tensor))
        if dtype not in _HALF:
            return kernel(*args, **kwargs)
        named = {name: _widened(value) for name, value in kwargs.items()}
        return kernel(*map(_widened, args), **named).to(dtype)

    return run


def _widened(value: Any) -> Any:
    half = isinstance(value, torch.Tensor) and value.dtype in _HALF
    return value.float() if half else value


def attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    """Attention with the fused CPU kernel: like the fused CUDA kernels it keeps no score matrix."""
    return torch._C._nn.scaled_dot_product_attention(query, key, value, *args, **kwargs)


for _product in (
    aten.linear.default,
    aten.mm.default,
    aten.bmm.default,
    aten.addmm.default,
    aten.baddbmm.default,
    aten.mv.default,
    aten.addmv.default,
    aten.convolution.default,
):
    KERNELS[_product] = in_float32(_product)
KERNELS[aten.scaled_dot_product_attention.default] = in_float32(attention)


def attention_on_device(attention_elsewhere: Callable[..., Any]) -> Callable[..., Any]:
    """`scaled_dot_product_attention` that stays one operation for device tensors.

    Outside inference mode PyTorch would choose its "math" path, which makes a score matrix; on a
    real GPU it makes none.
    """
    whole = aten.scaled_dot_product_attention.default

    def attend(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if type(query) is SimTensor:
            operands = (query, key, value, *args)
            return SimTensor.__torch_dispatch__(whole, (SimTensor,), operands, kwargs)
        return attention_elsewhere(query, key, value, *args, **kwargs)

    return attend

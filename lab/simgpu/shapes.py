"""Run the simulated GPU without its arithmetic: every allocation takes place, all values are zeros.

Whether a workflow fits depends on shapes alone. At real sizes matrix products, convolutions,
attention and other large operations need nearly all of the time and RAM. Here they return a result
of the right shape at once: zeros for which the system needs no memory. Small tensors (time steps,
indices) keep their values, so that code that reads them works.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import dispatch
from .dispatch import Kernel
from .tensor import Behaviour, SimTensor

aten = torch.ops.aten

LARGE_BYTES = 1 << 20
_MAPPED_BYTES = 1 << 18
# Left out at any size: they need most of the time at small sizes too.
_ALWAYS = {
    aten.linear.default, aten.mm.default, aten.bmm.default, aten.addmm.default,
    aten.baddbmm.default, aten.convolution.default, aten.native_group_norm.default,
    aten.native_layer_norm.default, aten.silu.default, aten.gelu.default, aten.add.Tensor,
    aten.mul.Tensor, aten._unsafe_index.Tensor, aten.silu_.default,
}
_DATA_DEPENDENT = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}


@contextmanager
def shapes_only() -> Iterator[None]:
    """Leave out the arithmetic of the simulated GPU within this context."""
    set_items = Behaviour.set_items
    with dispatch.adapted(_left_out):
        Behaviour.set_items = _set_items(set_items)
        try:
            yield
        finally:
            Behaviour.set_items = set_items


def zeros(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Zeros in RAM, for which the system needs memory only when they are written to. `torch.zeros`
    writes all of them.
    """
    return _zero_bytes(torch.empty(shape, dtype=dtype, device="meta").nbytes).view(dtype).view(
        shape)


@contextmanager
def unwritten_weights() -> Iterator[None]:
    """Leave out large copies between CPU tensors: a model that is loaded here takes no RAM."""
    with _NoLargeCopies():
        yield


class _NoLargeCopies(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is aten.copy_.default and _any_large(args):
            return args[0]
        return func(*args, **(kwargs or {}))


def _left_out(func: Any, kernel: Kernel) -> Kernel:
    """`kernel` of the operation `func` where its arithmetic is left out; some stay as they are."""
    if func is aten.scaled_dot_product_attention.default:
        return _attention
    if func.is_view or torch.Tag.inplace_view in func.tags or _DATA_DEPENDENT & set(func.tags):
        return kernel
    if not func._schema.is_mutable:
        return _zeros_like_result(func, kernel)
    return _as_it_was(func, kernel) if func._opname.endswith("_") else kernel


def _zeros_like_result(func: Any, kernel: Kernel) -> Kernel:
    """A function that only works out the shape, strides and dtype of the result of `func`."""
    known: dict[Any, Any] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        if func not in _ALWAYS and not _any_large([*args, *kwargs.values()]):
            return kernel(*args, **kwargs)
        key = (*map(_layout, args), *((name, _layout(value)) for name, value in kwargs.items()))
        if key not in known:
            known[key] = _recipes(func, args, kwargs)
        found = known[key]
        if found is None:
            return kernel(*args, **kwargs)
        return tuple(map(_zeros, found)) if isinstance(found, tuple) else _zeros(found)

    return run


def _recipes(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the layout of the result in memory; None if it is a view of an argument."""
    metas = [_as_meta(value) for value in args]
    named = {name: _as_meta(value) for name, value in kwargs.items()}
    if "device" in named:
        named["device"] = torch.device("meta")
    result = func(*metas, **named)
    given = {_storage(tensor) for tensor in _tensors([*metas, *named.values()])}
    if any(_storage(tensor) in given for tensor in _tensors([result])):
        return None
    return torch.utils._pytree.tree_map(_recipe, result)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _any_large(values: Any) -> bool:
    return any(tensor.nbytes >= LARGE_BYTES for tensor in _tensors(values))


def _layout(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype
    return tuple(map(_layout, value)) if isinstance(value, list | tuple) else value


def _as_meta(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_as_meta(item) for item in value]
    return value.to("meta") if isinstance(value, torch.Tensor) else value


class _Recipe:
    def __init__(self, meta: torch.Tensor) -> None:
        self.nbytes, self.dtype = meta.untyped_storage().nbytes(), meta.dtype
        self.layout = meta.shape, meta.stride(), meta.storage_offset()


def _recipe(meta: Any) -> Any:
    return _Recipe(meta) if isinstance(meta, torch.Tensor) else meta


def _zeros(recipe: Any) -> Any:
    if not isinstance(recipe, _Recipe):
        return recipe
    return _zero_bytes(recipe.nbytes).view(recipe.dtype).as_strided(*recipe.layout)


def _zero_bytes(count: int) -> torch.Tensor:
    if count < _MAPPED_BYTES:
        return torch.from_numpy(numpy.zeros(count, dtype=numpy.uint8))
    # The C library keeps freed blocks of up to 32 MiB, and would write the zeros into them: this
    # takes a millisecond for 16 MiB. New pages that nobody touches take 10 microseconds.
    return torch.frombuffer(mmap.mmap(-1, count), dtype=torch.uint8)


def _as_it_was(func: Any, kernel: Kernel) -> Kernel:
    def run(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if func in _ALWAYS or _any_large([tensor, *args]):
            return tensor
        return kernel(tensor, *args, **kwargs)

    return run


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
) -> torch.Tensor:
    """The result lies in memory as that of the fused kernels: heads beside each other."""
    batch, heads, length, _ = query.shape
    width = value.shape[-1]
    flat = _zero_bytes(batch * heads * length * width * query.element_size()).view(query.dtype)
    return flat.view(batch, length, heads, width).transpose(1, 2)


def _set_items(write: Callable[..., None]) -> Callable[..., None]:
    def run(tensor: SimTensor, index: Any, value: Any) -> None:
        if not _any_large([value if isinstance(value, torch.Tensor) else tensor]):
            write(tensor, index, value)

    return run

"""Run the simulated GPU without its arithmetic: every allocation takes place, values are zeros.

Whether a workflow fits depends on shapes alone. Products, convolutions and attention are nearly
all of the time at real sizes; here they give a result of the right shape at once.
"""

import sys
from contextlib import contextmanager

import numpy
import torch

aten = torch.ops.aten


def _zeros_like_result(kernel):
    """`kernel` as a function that only works out the shape, strides and dtype of its result."""
    known = {}

    def run(*args, **kwargs):
        key = (*map(_layout, args), *((name, _layout(value)) for name, value in kwargs.items()))
        if key not in known:
            metas = [_as_meta(value) for value in args]
            named = {name: _as_meta(value) for name, value in kwargs.items()}
            known[key] = torch.utils._pytree.tree_map(_recipe, kernel(*metas, **named))
        found = known[key]
        return tuple(map(_zeros, found)) if isinstance(found, tuple) else _zeros(found)

    return run


def _layout(value):
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype
    return tuple(map(_layout, value)) if isinstance(value, list | tuple) else value


def _as_meta(value):
    if isinstance(value, list | tuple):
        return [_as_meta(item) for item in value]
    return value.to("meta") if isinstance(value, torch.Tensor) else value


class _Recipe:
    def __init__(self, meta):
        self.nbytes, self.dtype = meta.untyped_storage().nbytes(), meta.dtype
        self.layout = meta.shape, meta.stride(), meta.storage_offset()


def _recipe(meta):
    return _Recipe(meta) if isinstance(meta, torch.Tensor) else meta


def _zeros(recipe):
    if not isinstance(recipe, _Recipe):
        return recipe
    return _zero_bytes(recipe.nbytes).view(recipe.dtype).as_strided(*recipe.layout)


def _zero_bytes(count):
    """Zeros that the system maps only when they are read; torch.zeros writes every one of them."""
    return torch.from_numpy(numpy.zeros(count, dtype=numpy.uint8))


def _as_it_was(tensor, *args, **kwargs):
    return tensor


def _attention(query, key, value, *args, **kwargs):
    """The result lies in memory as that of the fused kernels: heads beside each other."""
    batch, heads, length, _ = query.shape
    width = value.shape[-1]
    flat = _zero_bytes(batch * heads * length * width * query.element_size()).view(query.dtype)
    return flat.view(batch, length, heads, width).transpose(1, 2)


_SHAPES_ONLY = {
    **{op: _zeros_like_result(op) for op in (
        aten.linear.default, aten.mm.default, aten.bmm.default, aten.addmm.default,
        aten.baddbmm.default, aten.convolution.default, aten.native_group_norm.default,
        aten.native_layer_norm.default, aten.silu.default, aten.gelu.default,
        aten.add.Tensor, aten.mul.Tensor, aten._unsafe_index.Tensor,
    )},
    aten.silu_.default: _as_it_was,
    aten.scaled_dot_product_attention.default: _attention,
}


@contextmanager
def shapes_only():
    """Leave out the arithmetic of the simulated GPU within this context."""
    dispatch = sys.modules["simgpu"].dispatch
    usual = dict(dispatch.KERNELS)
    dispatch.KERNELS.update(_SHAPES_ONLY)
    dispatch._handlers.clear()
    try:
        yield
    finally:
        dispatch.KERNELS.clear()
        dispatch.KERNELS.update(usual)
        dispatch._handlers.clear()

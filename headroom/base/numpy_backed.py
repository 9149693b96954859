"""Tensors whose memory is a NumPy array of their own: on the CPU, contiguous, not shared.

torch frees such memory through NumPy, outside any torch allocator, and nothing in torch (a graph, a
larger buffer, a model) keeps it alive. Larger arrays get their own pages from the system: on the C
heap they would lie between the temporaries of the next call, which then cannot reuse the gaps, and
a server that keeps a thousand embeddings would grow by several times their size.
"""

import math
import mmap
from typing import Any

import numpy as np
import torch

NUMPY_DTYPES: dict[torch.dtype, Any] = {
    torch.float64: np.float64, torch.float32: np.float32, torch.float16: np.float16,
    torch.int64: np.int64, torch.int32: np.int32, torch.int16: np.int16, torch.int8: np.int8,
    torch.uint8: np.uint8, torch.bool: np.bool_,
    torch.complex64: np.complex64, torch.complex128: np.complex128,
}
MIN_PAGED_BYTES = 64 * 1024
INTEGER_OF_WIDTH: dict[int, Any] = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` is an ordinary dense one, which a NumPy array can replace.

    Not so sparse, nested, quantised and meta tensors, and wrappers around several tensors.
    """
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        return False
    wraps_others = hasattr(type(tensor), "__tensor_flatten__") or hasattr(tensor, "_qdata")
    return tensor.device.type != "meta" and not wraps_others


def numpy_backed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a plain `tensor`: detached, on the CPU, contiguous, over its own array.

    Shape, dtype and every bit stay; dtypes that NumPy lacks (bfloat16, float8) are in an integer
    array of the same width. It costs the tensor's bytes in RAM, once; the input does not change.
    """
    # Inside inference mode torch would make an inference tensor, which training code cannot use.
    with torch.inference_mode(False), torch.no_grad():
        copy = empty_numpy_backed(tuple(tensor.shape), tensor.dtype)
        copy.copy_(tensor.detach().resolve_conj().resolve_neg())
    return copy


def empty_numpy_backed(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return an uninitialised CPU tensor over a new NumPy array."""
    if dtype in NUMPY_DTYPES:
        return torch.from_numpy(_empty_array(shape, NUMPY_DTYPES[dtype]))
    array = _empty_array(shape, INTEGER_OF_WIDTH[dtype.itemsize])
    return torch.from_numpy(array).view(dtype)


def _empty_array(shape: tuple[int, ...], dtype: Any) -> Any:
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    if nbytes < MIN_PAGED_BYTES or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(shape, dtype)  # on Windows large blocks have pages of their own
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return np.empty(shape, dtype)  # the system has no mapping left, but the heap may have room
    return np.frombuffer(pages, dtype).reshape(shape)

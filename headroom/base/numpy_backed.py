"""Tensors whose memory is a NumPy array of their own: on the CPU, contiguous, not shared.

torch frees such memory through NumPy, outside any torch allocator, and nothing in torch (a graph, a
larger buffer, a model) keeps it alive. Larger arrays get their own pages from the system: on the C
heap they would lie between the temporaries of the next call, which then cannot reuse the gaps, and
a server that keeps a thousand embeddings would grow by several times their size.
"""

import mmap
from typing import Any

import numpy as np
import torch

MIN_PAGED_BYTES = 64 * 1024


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

    Shape, dtype and every bit stay, also of dtypes that NumPy lacks (bfloat16, float8). It costs
    the tensor's bytes in RAM, once; the input does not change.
    """
    # Inside inference mode torch would make an inference tensor, which training code cannot use.
    with torch.inference_mode(False), torch.no_grad():
        array = _empty_array(tensor.numel() * tensor.element_size())
        storage = torch.from_numpy(array).untyped_storage()
        copy = torch.empty(0, dtype=tensor.dtype)
        copy.set_(storage, 0, tensor.shape)  # type: ignore[call-overload]
        copy.copy_(tensor.detach().resolve_conj().resolve_neg())
    return copy


def _empty_array(nbytes: int) -> Any:
    if nbytes < MIN_PAGED_BYTES or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(nbytes, np.uint8)  # on Windows large blocks have pages of their own
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return np.empty(nbytes, np.uint8)  # the system has no mapping left, but the heap may
    return np.frombuffer(pages, np.uint8)

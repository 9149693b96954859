"""Reading and writing items: PyTorch's own code for it needs a real device driver."""

from __future__ import annotations

from typing import Any

import torch

from .dispatch import mixture, rewrap, unwrap
from .tensor import Behaviour, SimTensor


def get_items(tensor: SimTensor, index: Any) -> Any:
    """`tensor[index]`: a view where PyTorch gives a view, else a new charged tensor."""
    return rewrap(tensor._cpu[_plain(index)], (tensor,))


def set_items(tensor: SimTensor, index: Any, value: Any) -> None:
    """`tensor[index] = value`; a CPU value is copied over for slices only, as on CUDA."""
    if isinstance(value, torch.Tensor) and type(value) is not SimTensor:
        if value.dim() and _gathers(index):
            raise mixture()
    tensor._cpu[_plain(index)] = unwrap(value, [], host_too=True)


def _plain(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_plain(item) for item in index)
    if isinstance(index, list):
        return [_plain(item) for item in index]
    if isinstance(index, slice):
        return slice(_plain(index.start), _plain(index.stop), _plain(index.step))
    return index._cpu if type(index) is SimTensor else index


def _gathers(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return any(isinstance(item, list | torch.Tensor) for item in items)


Behaviour.get_items = get_items
Behaviour.set_items = set_items

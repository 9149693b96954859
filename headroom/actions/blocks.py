"""The storages behind a model's weights."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from ..base import private_file
from ..base.tensors import module_tensors, parts_of, storage_key

MIN_MAPPED_BYTES = 4096


@dataclass(eq=False)
class Block:
    """One storage of a model, all tensors that use it, and the device of the first of them."""

    module: torch.nn.Module
    name: str
    tensors: list[torch.Tensor]

    @property
    def data(self) -> torch.Tensor:
        """The whole storage as a flat uint8 tensor."""
        flat = torch.empty(0, dtype=torch.uint8)
        return flat.set_(self.tensors[0].untyped_storage())

    @property
    def nbytes(self) -> int:
        return self.tensors[0].untyped_storage().nbytes()

    @property
    def is_mapped(self) -> bool:
        """Whether the weights are in a private file already."""
        return private_file.is_mapped(self.tensors[0].untyped_storage().data_ptr())


def weights_of(
    modules: Iterable[torch.nn.Module],
) -> Iterator[tuple[torch.nn.Module, str, torch.Tensor]]:
    """Yield the parameters and buffers of all `modules`, each with its module and its name.

    A quantised one has several parts, each with a name of its own.
    """
    for module in modules:
        for name, tensor in module_tensors(module):
            for number, part in enumerate(parts_of(tensor)):
                yield module, f"{name} ({number})" if number else name, part


def blocks_of(modules: Iterable[torch.nn.Module], device: str = "") -> list[Block]:
    """Return the storages worth mapping, on every device or on one."""
    found: dict[tuple[str, int], Block] = {}
    for module, name, tensor in weights_of(modules):
        key = storage_key(tensor)
        if key is None or (device and key[0] != device):
            continue
        if tensor.untyped_storage().nbytes() >= MIN_MAPPED_BYTES:
            found.setdefault(key, Block(module, name, [])).tensors.append(tensor)
    return list(found.values())

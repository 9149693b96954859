"""The storages behind a model's weights, and where on disk the same bytes stand already."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from ..base import private_file
from ..base.private_file import PrivateFile
from ..base.safetensors_file import Slot
from ..base.tensors import module_tensors, storage_key

MIN_MAPPED_BYTES = 4096
HEAD_BYTES = 64


class Place(NamedTuple):
    """Where the bytes of a block lie on disk."""

    file: PrivateFile
    slot: Slot


@dataclass
class Block:
    """One storage of a model and every tensor that looks at it."""

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
        """Whether the weights live in a private file already."""
        return private_file.is_mapped(self.tensors[0].untyped_storage().data_ptr())


def weights_of(modules: Iterable[torch.nn.Module]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the named parameters and buffers of all `modules`."""
    for module in modules:
        yield from module_tensors(module)


def blocks_of(modules: Iterable[torch.nn.Module], device: str = "") -> list[Block]:
    """Return the storages worth mapping, on every device or on one."""
    found: dict[tuple[str, int], Block] = {}
    for _, tensor in weights_of(modules):
        key = storage_key(tensor)
        if key is None or (device and key[0] != device):
            continue
        if tensor.untyped_storage().nbytes() >= MIN_MAPPED_BYTES:
            found.setdefault(key, Block([])).tensors.append(tensor)
    return list(found.values())


def find_equal(blocks: Sequence[Block], files: Iterable[PrivateFile]) -> list[Place | None]:
    """Return, for each block, a place in one of the files that holds its exact bytes."""
    index: dict[tuple[int, bytes], list[Place]] = {}
    for file in dict.fromkeys(files):
        for slot in file.slots:
            head = file.read(slot.offset, min(slot.nbytes, HEAD_BYTES))
            index.setdefault((slot.nbytes, head), []).append(Place(file, slot))
    return [_equal_place(block, index) for block in blocks]


def _equal_place(block: Block, index: dict[tuple[int, bytes], list[Place]]) -> Place | None:
    data = block.data.numpy()
    itemsize = max(tensor.element_size() for tensor in block.tensors)
    for place in index.get((data.nbytes, data[:HEAD_BYTES].tobytes()), []):
        if place.slot.offset % itemsize == 0 and _equals(data, place):
            return place
    return None


def _equals(data: np.ndarray, place: Place) -> bool:
    start = 0
    for piece in place.file.pieces(place.slot):
        there = np.frombuffer(piece, np.uint8)
        if not _same_values(data[start : start + there.size], there):
            return False
        start += there.size
    return start == data.size


def _same_values(one: np.ndarray, other: np.ndarray) -> bool:
    """Compare flat uint8 arrays, eight bytes at a time as far as that goes: 20 times faster."""
    whole = one.size // 8 * 8
    if other.size != one.size or not np.array_equal(one[whole:], other[whole:]):
        return False
    return np.array_equal(one[:whole].view(np.int64), other[:whole].view(np.int64))

"""Move a model's weights from RAM to a memory-mapped file.

The system reads a mapped page from disk when it is used, and drops it when memory is short. So
unused weights cost no RAM. They are written once, to a private file that exists as long as the
module; while their bytes are unchanged, later offloads map the same file. The model's own file is
never mapped, because others may overwrite it.
"""

import shutil
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..base import private_file
from ..base.device import MIB
from ..base.private_file import Slot
from ..base.said import said
from ..base.tensors import module_tensors, parts_of, storage_key

MIN_MAPPED_BYTES = 4096
LEFT_BYTES = 256 * MIB  # of the disk, for what ComfyUI itself writes there
# Where the bytes of each block were at the last offload, by its name.
_slots: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, Slot]] = weakref.WeakKeyDictionary()


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


class DiskRefused(OSError, ValueError):
    """The folder cannot take the weights. A ValueError too: the user can choose another target."""

    __module__ = "headroom"  # in ComfyUI's reports, where its own name for ours is a path


@dataclass(frozen=True)
class Mapped:
    """Bytes that are mapped: before, from the file of an earlier offload, from a new file."""

    before_bytes: int
    earlier_bytes: int
    written_bytes: int


def check_mappable(modules: Sequence[torch.nn.Module], folder: Path) -> None:
    """Raise an error before anything moves if these modules cannot be mapped into `folder`.

    ValueError: a weight that is not a plain tensor. DiskRefused: the disk is full or read-only.
    Weights from an earlier offload count as unchanged.
    """
    _refuse_special_classes(modules)
    new = [block for block in blocks_of(modules) if not block.is_mapped and not _has_slot(block)]
    if new:
        _expect_room(sum(block.nbytes for block in new), folder)


def _refuse_special_classes(modules: Iterable[torch.nn.Module]) -> None:
    for _, name, tensor in weights_of(modules):
        data = tensor.data
        if type(data) not in (torch.Tensor, torch.nn.Parameter) or data.layout != torch.strided:
            kind = type(data).__name__
            raise ValueError(said(
                "Offload Model with to = 'disk' expects plain weights, but {name} is a {kind}: "
                "use to = 'CPU' for this model.", name=name, kind=kind))


def _expect_room(nbytes: int, folder: Path) -> None:
    needed = nbytes + LEFT_BYTES
    try:
        private_file.write(folder, ())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise refused(error) from error
    if free < needed:
        raise DiskRefused(said(
            "Offload Model with to = 'disk' needs {need_mib} in ComfyUI's temp folder, but only "
            "{free_mib} are free there: make room or choose to = 'CPU'.",
            need_mib=needed / MIB, free_mib=free / MIB))


def refused(error: OSError) -> DiskRefused:
    """Return a sentence with the system's error about the folder for mapped weights."""
    return DiskRefused(said(
        "Offload Model with to = 'disk' could not write to ComfyUI's temp folder ({error}): the "
        "weights are in RAM or on the GPU, nothing is lost; make room there, make it writable, or "
        "choose to = 'CPU'.", error=error.strerror or str(error)))


def map_modules(modules: Sequence[torch.nn.Module], folder: Path) -> Mapped:
    """Replace the CPU weights of `modules` by memory-mapped ones with the same bytes.

    Shapes, strides, dtypes and ties do not change. Mapped weights stay; weights that differ from
    the file of an earlier offload go into one new file in `folder`. Everything is on disk before
    the first weight is replaced, so after DiskRefused RAM is as it was before.
    """
    _refuse_special_classes(modules)
    blocks = blocks_of(modules, "cpu")
    in_ram = [block for block in blocks if not block.is_mapped]
    try:
        changed = [block for block in in_ram if not (
            _has_slot(block) and _slots[block.module][block.name].contains(block.data))]
        fresh = _write(changed, folder)
        for block, slot in zip(changed, fresh, strict=True):
            _slots.setdefault(block.module, {})[block.name] = slot
        mapped = _map([_slots[block.module][block.name] for block in in_ram])
    except OSError as error:
        raise error if isinstance(error, DiskRefused) else refused(error) from error
    for block, data in zip(in_ram, mapped, strict=True):
        _replace(block, data)
    written_bytes = sum(slot.nbytes for slot in fresh)
    mapped_bytes = sum(data.nbytes for data in mapped)
    return Mapped(
        before_bytes=sum(block.nbytes for block in blocks) - mapped_bytes,
        earlier_bytes=mapped_bytes - written_bytes,
        written_bytes=written_bytes,
    )


def _has_slot(block: Block) -> bool:
    slot = _slots.get(block.module, {}).get(block.name)
    return slot is not None and slot.nbytes == block.nbytes


def _write(blocks: Sequence[Block], folder: Path) -> list[Slot]:
    if not blocks:
        return []
    _expect_room(sum(block.nbytes for block in blocks), folder)
    return private_file.write(folder, (block.data for block in blocks))


def _map(slots: Sequence[Slot]) -> list[torch.Tensor]:
    """Return each slot as a flat uint8 tensor over a private mapping of its file."""
    mappings = {file: private_file.mapped(file) for file in {slot.file for slot in slots}}
    return [
        torch.frombuffer(mappings[file], dtype=torch.uint8, count=nbytes, offset=offset)
        for file, offset, nbytes in slots
    ]


def _replace(block: Block, data: torch.Tensor) -> None:
    storage = data.untyped_storage()
    for tensor in block.tensors:
        # In the mode in which the weight was made: torch refuses some views in the other mode.
        with torch.inference_mode(tensor.is_inference()):
            view = torch.empty(0, dtype=tensor.dtype)
            view.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
            tensor.data = view

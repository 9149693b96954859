"""Let a model's weights live in a memory-mapped file instead of in RAM.

A mapped page is read from disk when it is used and dropped by the system when memory is short, so
the weights cost no RAM until then. A storage whose bytes stand unchanged in the model's own file
is mapped from there; the rest goes into one scratch file. Writing to a mapped weight makes a
private copy of its page and never changes the file.
"""

import logging
import mmap
import shutil
import uuid
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..base.safetensors_file import DTYPES, Slot, read_slots, write_storages
from ..base.tensors import module_tensors, storage_bytes, storage_key
from ..measure.report import mib_text

log = logging.getLogger("headroom")

MIN_MAPPED_BYTES = 4096
COMPARE_CHUNK_BYTES = 8 * 1024 * 1024


@dataclass
class Block:
    """One storage of a model and every tensor that looks at it."""

    names: list[str]
    tensors: list[torch.Tensor]

    @property
    def data(self) -> torch.Tensor:
        """The whole storage as a flat uint8 tensor."""
        flat = torch.empty(0, dtype=torch.uint8)
        return flat.set_(self.tensors[0].untyped_storage())

    @property
    def nbytes(self) -> int:
        return self.tensors[0].untyped_storage().nbytes()


@dataclass(frozen=True)
class Mapped:
    """Bytes now mapped from the model's own files and from the scratch file."""

    own_bytes: int
    scratch_bytes: int
    scratch_path: Path | None


def check_mappable(modules: Iterable[torch.nn.Module], folder: Path) -> None:
    """Raise before anything moves if these modules cannot be mapped or `folder` has no room.

    ValueError: a weight that is not a plain tensor. OSError: the disk is full or read-only.
    """
    weights = list(_weights(modules))
    _refuse_special_classes((name, tensor) for name, tensor in weights if tensor.is_cpu)
    wanted = sum(storage_bytes(tensor for _, tensor in weights).values())
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / ".headroom_write_test"
    probe.write_bytes(b"0")
    probe.unlink()
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise OSError(
            f"Offload Model with to = 'disk' needs {mib_text(wanted)} in ComfyUI's temp folder, "
            f"but only {mib_text(free)} are free there: make room or choose to = 'CPU'."
        )


def _refuse_special_classes(weights: Iterable[tuple[str, torch.Tensor]]) -> None:
    for name, tensor in weights:
        data = tensor.data
        if type(data) not in (torch.Tensor, torch.nn.Parameter) or data.layout != torch.strided:
            kind = type(data).__name__
            raise ValueError(
                f"Offload Model with to = 'disk' expects plain weights, but {name} is a {kind}: "
                "use to = 'CPU' for this model."
            )


def map_modules(
    modules: list[torch.nn.Module], folder: Path, sources: Iterable[Path] = ()
) -> Mapped:
    """Replace the CPU weights of `modules` by memory-mapped ones with the same bytes.

    `sources` are safetensors files whose unchanged tensors are used in place. Shapes, strides,
    dtypes and ties stay. The scratch file in `folder` is deleted with the modules or at exit.
    All weights are on disk before the first one is replaced, so an OSError leaves RAM as it was.
    """
    _refuse_special_classes(_weights(modules))
    blocks = _blocks(modules)
    own = _find_in_sources(blocks, sources)
    rest = [index for index in range(len(blocks)) if index not in own]
    path = _write_scratch([blocks[i] for i in rest], modules, folder) if rest else None
    slots = dict(own)
    if path is not None:
        slots.update(zip(rest, path[1], strict=True))
    for index, data in _map_slots(slots):
        _replace(blocks[index], data)
    return Mapped(
        own_bytes=sum(blocks[i].nbytes for i in own),
        scratch_bytes=sum(blocks[i].nbytes for i in rest),
        scratch_path=path[0] if path is not None else None,
    )


def _weights(modules: Iterable[torch.nn.Module]) -> Iterator[tuple[str, torch.Tensor]]:
    for module in modules:
        yield from module_tensors(module)


def _blocks(modules: Iterable[torch.nn.Module]) -> list[Block]:
    found: dict[tuple[str, int], Block] = {}
    for name, tensor in _weights(modules):
        key = storage_key(tensor)
        if key is None or key[0] != "cpu" or tensor.untyped_storage().nbytes() < MIN_MAPPED_BYTES:
            continue
        block = found.setdefault(key, Block([], []))
        block.names.append(name)
        block.tensors.append(tensor)
    return list(found.values())


def _find_in_sources(blocks: list[Block], sources: Iterable[Path]) -> dict[int, Slot]:
    """Return, for each block whose exact bytes stand in one of the files, where they stand."""
    index: dict[tuple[str, tuple[int, ...]], list[Slot]] = {}
    for path in sources:
        if path.suffix in (".safetensors", ".sft"):
            for slot in read_slots(path):
                index.setdefault((slot.dtype, slot.shape), []).append(slot)
    found: dict[int, Slot] = {}
    for number, block in enumerate(blocks):
        tensor = block.tensors[0]
        whole = tensor.is_contiguous() and tensor.numel() * tensor.element_size() == block.nbytes
        if whole and len(block.tensors) == 1:
            kind = (DTYPES.get(tensor.dtype, ""), tuple(tensor.shape))
            same = _same_bytes(block, index.get(kind, []))
            if same is not None:
                found[number] = same
    return found


def _same_bytes(block: Block, candidates: list[Slot]) -> Slot | None:
    """Return the candidate that holds the block's bytes; same-named tensors are tried first."""
    leaf = ".".join(block.names[0].split(".")[-3:])
    itemsize = block.tensors[0].element_size()
    for slot in sorted(candidates, key=lambda slot: not slot.name.endswith(leaf)):
        if slot.offset % itemsize == 0 and _equals(block.data, slot):
            return slot
    return None


def _equals(data: torch.Tensor, slot: Slot) -> bool:
    """Compare by reading, not by mapping: a mapped page would count as RAM afterwards."""
    bytes_here = data.numpy()
    with slot.path.open("rb") as file:
        file.seek(slot.offset)
        for start in range(0, slot.nbytes, COMPARE_CHUNK_BYTES):
            here = bytes_here[start : start + COMPARE_CHUNK_BYTES]
            there = np.frombuffer(file.read(here.nbytes), np.uint8)
            if not _same_values(here, there):
                return False
    return True


def _same_values(one: np.ndarray, other: np.ndarray) -> bool:
    """Compare flat uint8 arrays, eight bytes at a time as far as that goes: 20 times faster."""
    whole = one.size // 8 * 8
    if other.size != one.size or not np.array_equal(one[whole:], other[whole:]):
        return False
    return np.array_equal(one[:whole].view(np.int64), other[:whole].view(np.int64))


def _write_scratch(
    blocks: list[Block], modules: list[torch.nn.Module], folder: Path
) -> tuple[Path, list[Slot]]:
    path = folder / f"headroom_{uuid.uuid4().hex}.safetensors"
    try:
        slots = write_storages(path, [(block.names[0], block.data) for block in blocks])
    except OSError as error:
        _delete(path)
        raise OSError(
            f"Offload Model could not write {mib_text(sum(block.nbytes for block in blocks))} to "
            f"ComfyUI's temp folder ({error.strerror}): the weights are still in RAM, nothing "
            "is lost; make room there or choose to = 'CPU'."
        ) from error
    for module in modules:
        weakref.finalize(module, _delete, path)
    return path, slots


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        # Windows refuses while the file is mapped; ComfyUI empties its temp folder at start.
        log.debug("[Headroom] %s stays until ComfyUI empties its temp folder: %s", path, error)


def _map_slots(slots: dict[int, Slot]) -> list[tuple[int, torch.Tensor]]:
    """Return each slot as a flat uint8 tensor over a private mapping of its file."""
    maps: dict[Path, mmap.mmap] = {}
    mapped = []
    for number, slot in slots.items():
        if slot.path not in maps:
            with slot.path.open("rb") as file:
                maps[slot.path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        data = torch.frombuffer(
            maps[slot.path], dtype=torch.uint8, count=slot.nbytes, offset=slot.offset
        )
        mapped.append((number, data))
    return mapped


def _replace(block: Block, data: torch.Tensor) -> None:
    storage = data.untyped_storage()
    for tensor in block.tensors:
        # A weight made in inference mode that looks at a normal tensor cannot be viewed there.
        with torch.inference_mode(tensor.is_inference()):
            view = torch.empty(0, dtype=tensor.dtype)
            view.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
            tensor.data = view

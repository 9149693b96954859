"""Let a model's weights live in a memory-mapped file instead of in RAM.

A mapped page is read from disk when it is used and dropped by the system when memory is short, so
the weights cost no RAM until then. Bytes that stand unchanged in a private file already (one that
an earlier offload wrote, or a copy-on-write clone of the model's own file) are mapped from there;
the rest is written. The model's own file is never mapped: others may overwrite it.
"""

import mmap
import shutil
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..base import private_file
from ..base.private_file import PrivateFile
from ..measure.report import mib_text
from .blocks import Block, Place, blocks_of, find_equal, weights_of

_files_of: dict[int, tuple[PrivateFile, ...]] = {}  # by the id of the module that lives in them


class DiskRefused(OSError, ValueError):
    """The folder cannot take the weights; a ValueError too: another target can be chosen."""


@dataclass(frozen=True)
class Mapped:
    """Bytes that are mapped now: since before, from clones, from earlier files, from a new one."""

    before_bytes: int
    cloned_bytes: int
    earlier_bytes: int
    written_bytes: int


def check_mappable(
    modules: Iterable[torch.nn.Module], folder: Path, clones: Iterable[PrivateFile] = ()
) -> None:
    """Raise before anything moves if these modules cannot be mapped or `folder` has no room.

    ValueError: a weight that is not a plain tensor. DiskRefused: the disk is full or read-only.
    What has its size in one of `clones`, or in a file of an earlier offload, counts as there.
    """
    modules = list(modules)
    _refuse_special_classes(weights_of(modules))
    files = [*_kept_files(modules), *clones]
    there = Counter(slot.nbytes for file in files for slot in file.slots)
    needed = Counter(block.nbytes for block in blocks_of(modules) if not block.is_mapped) - there
    if needed:
        _expect_room(sum(size * count for size, count in needed.items()), folder)


def _refuse_special_classes(weights: Iterable[tuple[str, torch.Tensor]]) -> None:
    for name, tensor in weights:
        data = tensor.data
        if type(data) not in (torch.Tensor, torch.nn.Parameter) or data.layout != torch.strided:
            kind = type(data).__name__
            raise ValueError(
                f"Offload Model with to = 'disk' expects plain weights, but {name} is a {kind}: "
                "use to = 'CPU' for this model."
            )


def _expect_room(nbytes: int, folder: Path) -> None:
    try:
        private_file.write(folder, ())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise refused(error) from error
    if free < nbytes:
        raise DiskRefused(
            f"Offload Model with to = 'disk' needs {mib_text(nbytes)} in ComfyUI's temp folder, "
            f"but only {mib_text(free)} are free there: make room or choose to = 'CPU'."
        )


def refused(error: OSError) -> DiskRefused:
    """Return the sentence for what the system said about the folder for mapped weights."""
    return DiskRefused(
        "Offload Model with to = 'disk' could not write to ComfyUI's temp folder "
        f"({error.strerror or error}): the weights are in RAM or on the GPU, nothing is lost; "
        "make room there, make it writable, or choose to = 'CPU'."
    )


def map_modules(
    modules: list[torch.nn.Module], folder: Path, clones: Iterable[PrivateFile] = ()
) -> Mapped:
    """Replace the CPU weights of `modules` by memory-mapped ones with the same bytes.

    `clones` are private files whose bytes are used where they are equal. Shapes, strides, dtypes
    and ties stay. What is mapped already stays; what has to be written goes into one new file in
    `folder`, kept as long as the modules or until their weights are others.
    Everything is on disk before the first weight is replaced, so DiskRefused leaves RAM as it was.
    """
    _refuse_special_classes(weights_of(modules))
    blocks = blocks_of(modules, "cpu")
    in_ram = [block for block in blocks if not block.is_mapped]
    found = find_equal(in_ram, [*_kept_files(modules), *clones])
    missing = [block for block, place in zip(in_ram, found, strict=True) if place is None]
    try:
        written = _write(missing, folder)
        fresh = iter(written)
        places = [place or next(fresh) for place in found]
        mapped = _map(places)
    except OSError as error:
        raise error if isinstance(error, DiskRefused) else refused(error) from error
    for block, data in zip(in_ram, mapped, strict=True):
        _replace(block, data)
    _keep(modules, [place.file for place in places])
    return Mapped(
        before_bytes=sum(block.nbytes for block in blocks) - sum(data.nbytes for data in mapped),
        cloned_bytes=_bytes_in(place for place in found if place and place.file.is_clone),
        earlier_bytes=_bytes_in(place for place in found if place and not place.file.is_clone),
        written_bytes=_bytes_in(written),
    )


# ---------------------------------------------------------------- the files of a module


def _kept_files(modules: Iterable[torch.nn.Module]) -> list[PrivateFile]:
    return [file for module in modules for file in _files_of.get(id(module), ())]


def _keep(modules: Iterable[torch.nn.Module], used: Iterable[PrivateFile]) -> None:
    """Keep the files that the modules live in for their next offload; the others go."""
    for module in modules:
        if id(module) not in _files_of:
            weakref.finalize(module, _files_of.pop, id(module), None)
        still = [file for file in _files_of.get(id(module), ()) if file.is_in_use]
        _files_of[id(module)] = tuple(dict.fromkeys([*still, *used]))


# ---------------------------------------------------------------- writing and mapping


def _write(blocks: Sequence[Block], folder: Path) -> list[Place]:
    if not blocks:
        return []
    _expect_room(sum(block.nbytes for block in blocks), folder)
    file = private_file.write(folder, (block.data for block in blocks))
    return [Place(file, slot) for slot in file.slots]


def _map(places: Sequence[Place]) -> list[torch.Tensor]:
    """Return each place as a flat uint8 tensor over a private mapping of its file."""
    mappings: dict[PrivateFile, mmap.mmap] = {
        file: file.map() for file in {place.file for place in places}
    }
    return [
        torch.frombuffer(
            mappings[file], dtype=torch.uint8, count=slot.nbytes, offset=slot.offset
        )
        for file, slot in places
    ]


def _bytes_in(places: Iterable[Place]) -> int:
    return sum(place.slot.nbytes for place in places)


def _replace(block: Block, data: torch.Tensor) -> None:
    storage = data.untyped_storage()
    for tensor in block.tensors:
        # A weight made in inference mode that looks at a normal tensor cannot be viewed there.
        with torch.inference_mode(tensor.is_inference()):
            view = torch.empty(0, dtype=tensor.dtype)
            view.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
            tensor.data = view

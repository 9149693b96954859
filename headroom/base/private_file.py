"""Files on disk that only this process can reach, so that what is mapped from them never changes.

A mapping shows its file as it is: one that is overwritten in place shows other values, one that is
cut short ends the process with SIGBUS. So nothing is ever mapped from a file that others can open.
A private file has no name (on Windows, one that cannot be opened again), and the system takes its
room back with the last mapping, even when this process is killed.
"""

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch

ALIGNMENT = 64
CHUNK_BYTES = 8 * 1024 * 1024

_ranges: weakref.WeakKeyDictionary[mmap.mmap, range] = weakref.WeakKeyDictionary()


class PrivateFile:
    """A file that nobody else can open."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def map(self) -> mmap.mmap:
        """Return a new mapping of the whole file; writing to it changes neither file nor others.

        Always a new one: the pages of an older one may have been written to. Raises OSError.
        """
        mapping = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        start = torch.frombuffer(mapping, dtype=torch.uint8).data_ptr()
        _ranges[mapping] = range(start, start + len(mapping))
        return mapping

    def holds(self, offset: int, data: torch.Tensor) -> bool:
        """Return whether the bytes of a flat uint8 CPU tensor stand at `offset`.

        Read, not mapped: a page that is seen through a mapping counts as RAM. Raises OSError.
        """
        self._file.seek(offset)
        buffer = bytearray(min(CHUNK_BYTES, data.numel()))
        for piece in torch.split(data, CHUNK_BYTES):
            there = memoryview(buffer)[: piece.numel()]
            if self._file.readinto(there) != piece.numel():  # type: ignore[attr-defined]
                return False
            # Eight bytes at a time where that can be: 20 times faster.
            width = np.int64 if piece.numel() % 8 == 0 else np.uint8
            if not np.array_equal(piece.numpy().view(width), np.frombuffer(there, width)):
                return False
        return True


class Slot(NamedTuple):
    """Where the bytes of one tensor lie: `offset` counts from the start of the file."""

    file: PrivateFile
    offset: int
    nbytes: int

    def holds(self, data: torch.Tensor) -> bool:
        """Return whether the bytes of a flat uint8 CPU tensor stand there. Raises OSError."""
        return self.file.holds(self.offset, data)


def is_mapped(address: int) -> bool:
    """Return whether `address` lies in a mapping of a private file that is still in use."""
    return any(address in addresses for addresses in list(_ranges.values()))


def write(folder: Path, contents: Iterable[torch.Tensor]) -> list[Slot]:
    """Write flat uint8 CPU tensors into a new private file and return where each one lies.

    Costs no RAM beyond the file system's cache. Returns when everything is on the disk; raises
    OSError as the disk gives it, and then nothing is left behind.
    """
    file = tempfile.TemporaryFile(dir=folder)
    try:
        private = PrivateFile(file)
        slots = [Slot(private, _append(file, data), data.numel()) for data in contents]
        file.flush()
        os.fsync(file.fileno())  # a network folder may refuse as late as this
    except BaseException:
        file.close()
        raise
    return slots


def _append(file: IO[bytes], data: torch.Tensor) -> int:
    offset = file.tell()
    file.write(memoryview(data.numpy()))  # type: ignore[arg-type]
    file.write(b"\0" * (-data.numel() % ALIGNMENT))
    _begin_to_store(file, offset, file.tell())
    return offset


def _begin_to_store(file: IO[bytes], start: int, end: int) -> None:
    """Let the system write these bytes to the disk meanwhile, so that the last wait is short.

    Linux does so when it is told that nobody needs them soon. What is not on the disk yet stays in
    its cache all the same. Nothing happens where the system has no such call.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), start, end - start, os.POSIX_FADV_DONTNEED)

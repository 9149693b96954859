"""Files on disk that only this process can open, so that data mapped from them never changes.

A mapping shows the present content of its file. If others overwrite the file, the mapping shows
other values; if they truncate it, this process ends with SIGBUS. So nothing is ever mapped from a
file that others can open. A private file has no name (on Windows, one that cannot be opened again),
and the system frees its room with the last mapping, even if this process is killed.
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


def mapped(file: IO[bytes]) -> mmap.mmap:
    """Return a new mapping of a whole private file; writing to it changes neither file nor others.

    It is always a new one: somebody may have written into an older one. Raises OSError.
    """
    mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start = torch.frombuffer(mapping, dtype=torch.uint8).data_ptr()
    _ranges[mapping] = range(start, start + len(mapping))
    return mapping


class Slot(NamedTuple):
    """Where the bytes of one tensor are: `offset` counts from the start of the file."""

    file: IO[bytes]
    offset: int
    nbytes: int

    def contains(self, data: torch.Tensor) -> bool:
        """Return whether the bytes of a flat uint8 CPU tensor are there.

        It reads the file and does not map it: a mapped page counts as RAM. Raises OSError.
        """
        self.file.seek(self.offset)
        buffer = bytearray(min(CHUNK_BYTES, data.numel()))
        for piece in torch.split(data, CHUNK_BYTES):
            there = memoryview(buffer)[: piece.numel()]
            if self.file.readinto(there) != piece.numel():  # type: ignore[attr-defined]
                return False
            # Eight bytes at a time if possible: 20 times faster.
            width = np.int64 if piece.numel() % 8 == 0 else np.uint8
            if not np.array_equal(piece.numpy().view(width), np.frombuffer(there, width)):
                return False
        return True


def is_mapped(address: int) -> bool:
    """Return whether `address` is in a mapping of a private file that is still in use."""
    return any(address in addresses for addresses in list(_ranges.values()))


def write(folder: Path, contents: Iterable[torch.Tensor]) -> list[Slot]:
    """Write flat uint8 CPU tensors into a new private file; return where each of them is.

    It costs no RAM outside the file system's cache. It returns when everything is on the disk. If
    the disk raises OSError, no file is left.
    """
    file = tempfile.TemporaryFile(dir=folder)
    try:
        slots = [Slot(file, _append(file, data), data.numel()) for data in contents]
        file.flush()
        os.fsync(file.fileno())  # a network folder may refuse only here
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
    """Let the system begin to write these bytes to the disk, so that the last wait is short.

    Linux does so when it is told that nobody needs them soon; bytes that are not on the disk yet
    stay in its cache. Without this system call nothing happens.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), start, end - start, os.POSIX_FADV_DONTNEED)

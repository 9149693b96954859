"""Files on disk that only this process can reach, so that what is mapped from them never changes.

A mapping shows its file as it is: one that is overwritten in place shows other values, one that is
cut short ends the process with SIGBUS. So nothing is ever mapped from a file that others can open.
A private file has no name (on Windows, one that cannot be opened again), and the system takes its
room back with the last mapping, even when this process is killed.
"""

import logging
import mmap
import os
import stat
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import torch

from .safetensors_file import Slot, read_slots

try:
    import fcntl
except ImportError:  # Windows has no call that lets files share their blocks
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("headroom")

ALIGNMENT = 64
CHUNK_BYTES = 8 * 1024 * 1024
# Linux: one file takes on the blocks of another, copy-on-write (man 2 ioctl_ficlone).
FICLONE = 0x40049409

_ranges: weakref.WeakKeyDictionary[mmap.mmap, range] = weakref.WeakKeyDictionary()


class PrivateFile:
    """A file that nobody else can open, and where in it tensors lie.

    `is_clone`: it shares its blocks with the file that it was made from and takes no room.
    """

    def __init__(self, file: IO[bytes], slots: Sequence[Slot], is_clone: bool) -> None:
        self._file = file
        self.slots = tuple(slots)
        self.is_clone = is_clone
        self._mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    @property
    def is_in_use(self) -> bool:
        """Whether tensors live in a mapping of this file."""
        return bool(self._mappings)

    def read(self, offset: int, nbytes: int) -> bytes:
        """Return bytes by reading: a page seen through a mapping would count as RAM."""
        self._file.seek(offset)
        return self._file.read(nbytes)

    def pieces(self, slot: Slot) -> Iterator[bytes]:
        """Yield the bytes of a slot, some MiB at a time."""
        for start in range(0, slot.nbytes, CHUNK_BYTES):
            yield self.read(slot.offset + start, min(CHUNK_BYTES, slot.nbytes - start))

    def map(self) -> mmap.mmap:
        """Return a new mapping of the whole file; writing to it changes neither file nor others.

        Always a new one: the pages of an older one may have been written to. Raises OSError.
        """
        mapping = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        start = torch.frombuffer(mapping, dtype=torch.uint8).data_ptr()
        _ranges[mapping] = range(start, start + len(mapping))
        self._mappings.add(mapping)
        return mapping


def is_mapped(address: int) -> bool:
    """Return whether `address` lies in a mapping of a private file that is still in use."""
    return any(address in addresses for addresses in list(_ranges.values()))


def clone(path: Path, folder: Path) -> PrivateFile | None:
    """Return a private clone of a safetensors file, None where that cannot be.

    The file system must let two files share their blocks (XFS, Btrfs, bcachefs, ZFS); it costs no
    room and no time then. Anything but a sound safetensors file gives None, too, and so does a
    folder that is full or read-only: there may be nothing to write.
    """
    try:
        file = tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        log.debug("[Headroom] no file can be made in %s: %s", folder, error)
        return None
    try:
        if fcntl is not None and _share_blocks(path, file):
            slots = read_slots(file, os.fstat(file.fileno()).st_size)
            return PrivateFile(file, slots, is_clone=True)
    except (OSError, ValueError) as error:
        log.debug("[Headroom] %s is not mapped from a clone: %s", path, error)
    file.close()
    return None


def _share_blocks(path: Path, file: IO[bytes]) -> bool:
    """Make `file` a copy-on-write clone of the regular file at `path`; OSError where it cannot."""
    # Opening a FIFO would wait for somebody who writes to it.
    source = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            return False
        fcntl.ioctl(file.fileno(), FICLONE, source)
        return True
    finally:
        os.close(source)


def write(folder: Path, contents: Iterable[torch.Tensor]) -> PrivateFile:
    """Write flat uint8 CPU tensors into a new private file, one slot each, in their order.

    Costs no RAM beyond the file system's cache. Returns when everything is on the disk; raises
    OSError as the disk gives it, and then nothing is left behind.
    """
    file = tempfile.TemporaryFile(dir=folder)
    try:
        slots = [_append(file, data) for data in contents]
        file.flush()
        os.fsync(file.fileno())  # a network folder may refuse as late as this
    except BaseException:
        file.close()
        raise
    return PrivateFile(file, slots, is_clone=False)


def _append(file: IO[bytes], data: torch.Tensor) -> Slot:
    slot = Slot(file.tell(), data.numel())
    file.write(memoryview(data.numpy()))  # type: ignore[arg-type]
    file.write(b"\0" * (-slot.nbytes % ALIGNMENT))
    return slot

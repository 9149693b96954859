"""Read a file that others may have put there: it must be a regular file of a normal size."""

import os
import stat
from pathlib import Path


def read_untrusted(path: Path, max_bytes: int, most: int | None = None) -> bytes:
    """Return the content of a regular file of at most `max_bytes`, or its first `most` bytes.

    It never waits (a FIFO would make a plain reader wait for ever), and follows links only to
    regular files. Raises OSError: FileNotFoundError if there is none; others say what was found.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path.name} is no regular file")
        if status.st_size > max_bytes:
            raise OSError(f"{path.name} is larger than {max_bytes} bytes")
        return _read(handle, status.st_size if most is None else min(most, status.st_size))
    finally:
        os.close(handle)


def _read(handle: int, size: int) -> bytes:
    """Return at most `size` bytes: the file may have been truncated since its size was read."""
    parts = []
    while size > 0 and (part := os.read(handle, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

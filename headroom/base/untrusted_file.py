"""Read a file that others may have put there: it must be a regular file of a normal size."""

import os
import stat
from pathlib import Path


def read_untrusted(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`.

    It never waits (a FIFO would make a plain reader wait for ever), and follows links only to
    regular files. Raises OSError: FileNotFoundError if there is none; others say what was found.
    """
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    with open(path, "rb", opener=opener) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path.name} is no regular file")
        if status.st_size > max_bytes:
            raise OSError(f"{path.name} is larger than {max_bytes} bytes")
        return file.read(status.st_size)

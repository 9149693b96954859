"""Files in folders that others use too: only regular ones of a normal size, and written whole."""

import os
import stat
import uuid
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


def write_whole(file: Path, data: bytes) -> None:
    """Write a file, all of it or nothing; its folder is made. OSError when the disk refuses."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"file.{os.getpid()}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(data)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)

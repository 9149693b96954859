"""What tells one model file from another without reading all of it.

Size, modification time, the header (a safetensors header lists every tensor) and a few small
blocks spread over the data. Reading costs some milliseconds once for each state of a file.
"""

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

HEADER_BYTES = 64 * 1024
MAX_HEADER_BYTES = 16 * 1024 * 1024
BLOCK_BYTES = 4096
BLOCKS = 16

State = tuple[int, int, int]


def state_of(path: Path) -> State:
    """Return (size, modification time, change time) of a file, times in nanoseconds.

    The change time moves even when a file is replaced by one with an older modification time;
    Windows keeps the creation time there, which moves then too. Raises OSError.
    """
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def identity_of(path: Path) -> dict[str, object]:
    """Return what identifies the content of `path`: the same for the same file elsewhere.

    Raises OSError when it cannot be read.
    """
    state = state_of(path)
    return {"size": state[0], "mtime_ns": state[1], "content": _content_hash(str(path), state)}


def identities_of(paths: Iterable[Path]) -> list[dict[str, object]]:
    """Return the identities of several files, independent of their order and folder."""
    named = [{"name": path.name, **identity_of(path)} for path in paths]
    return sorted(named, key=lambda entry: (str(entry["name"]), str(entry["content"])))


@lru_cache(maxsize=512)
def _content_hash(path: str, state: State) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        digest.update(file.read(_header_length(path)))
        for index in range(1, BLOCKS + 1):
            file.seek(max(0, state[0] * index // BLOCKS - BLOCK_BYTES), os.SEEK_SET)
            digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


def _header_length(path: str) -> int:
    """Return how many bytes the header takes: all of a safetensors one, else a fixed part."""
    if not path.lower().endswith((".safetensors", ".sft")):
        return HEADER_BYTES
    with open(path, "rb") as file:
        declared = int.from_bytes(file.read(8), "little")
    return min(8 + declared, MAX_HEADER_BYTES)

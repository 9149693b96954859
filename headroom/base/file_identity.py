"""The identity of a file: its size, its time, and blocks sampled from all parts of it.

A model file of 10 GB is not read in full: 9 MiB of it identify it in milliseconds. Small files are
read in full. A pack's code is hashed as a whole.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import psutil

HEAD_BYTES = 1024 * 1024  # the header of a safetensors file, which names and places all tensors
BLOCKS = 128
BLOCK_BYTES = 64 * 1024
READ_BYTES = HEAD_BYTES + BLOCKS * BLOCK_BYTES
# A change within one step of the file system's clock keeps the times; a step is shorter than this.
SETTLE_NS = 2_000_000_000

# One second later, because the time of boot, from which this is computed, is in whole seconds.
PROCESS_START_NS = min(int((psutil.Process().create_time() + 1) * 1e9), time.time_ns())

State = tuple[int, int, int]


def state_of(path: Path) -> State:
    """Return (size, modification time, change time) of a file, times in nanoseconds.

    The change time changes even if a file is replaced by one with an older modification time. On
    Windows it is the creation time, which NTFS gives to a new file of the same name within 15
    seconds ("tunneling"): a replacement with the same size and time is not noticed. Raises OSError.
    """
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def changed_ns(state: State) -> int:
    """Return when a file last changed: nobody can set a change time; archives set the other times.

    Windows has no change time; there it is the later one of the two times.
    """
    return max(state[1:]) if os.name == "nt" else state[2]


def identity_of(path: Path) -> dict[str, object]:
    """Return the identity of the content of `path`; a copy of the file has the same.

    In a large file an edit between the sampled blocks is not noticed. Raises OSError if the file
    cannot be read, or changes while it is read.
    """
    state = state_of(path)
    has_settled = abs(time.time_ns() - changed_ns(state)) > SETTLE_NS
    look = _sampled_hash if has_settled else _sampled_hash.__wrapped__
    digest = look(path, state[0], state)
    if state_of(path) != state:
        raise OSError(f"{path.name} changed while it was read")
    return {"size": state[0], "content": f"sampled {digest}"}


def identities_of(paths: Iterable[Path]) -> list[dict[str, object]]:
    """Return the identities of several files, independent of their order and folder.

    For files that are not read in full it includes the modification times, in seconds, which show
    an edit between the sampled blocks. A copy with a new time counts as another file.
    """
    named = []
    for path in paths:
        size, modified_ns, _ = state_of(path)
        seconds = modified_ns // 1_000_000_000 if size > READ_BYTES else 0
        named.append({"name": path.name, **identity_of(path), "time": seconds})
    return sorted(named, key=lambda entry: (str(entry["name"]), str(entry["content"])))


@lru_cache(maxsize=2000)
def _sampled_hash(path: Path, size: int, _state: State) -> str:
    """Return a hash over the size and the sampled blocks of a file as it is in that state."""
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with path.open("rb") as file:
        for start, nbytes in _places(size):
            file.seek(start)
            digest.update(file.read(nbytes))
    return digest.hexdigest()


def _places(size: int) -> Iterator[tuple[int, int]]:
    """Yield (start, bytes) of the parts to read: the head, and blocks from there to the end."""
    if size <= READ_BYTES:
        yield 0, size
        return
    yield 0, HEAD_BYTES
    room = size - BLOCK_BYTES - HEAD_BYTES
    for number in range(BLOCKS):
        yield HEAD_BYTES + room * number // (BLOCKS - 1), BLOCK_BYTES


class Code(NamedTuple):
    """The code at some place: a hash over names and content, and whether this code runs.

    `is_new`: a file has changed since this process began, so the imported code may be older.
    """

    digest: str
    is_new: bool


def code_of(place: Path, start_ns: int = PROCESS_START_NS) -> Code:
    """Return the Python code of a file, or of all files below a folder.

    Files that are hidden, or that a tool has installed there, do not count.
    """
    digest, newest = hashlib.sha256(), 0
    for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        own = file.relative_to(place) if file != place else Path(place.name)
        if file.is_file() and not _is_foreign(own):
            newest = max(newest, changed_ns(state_of(file)))
            digest.update(json.dumps(own.as_posix()).encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return Code(digest.hexdigest(), newest > start_ns)


def commit_of(folder: Path) -> str:
    """Return the commit that is checked out in a folder; "" if there is no git repository."""
    try:
        head = (folder / ".git" / "HEAD").read_text().strip()
        branch = head.removeprefix("ref: ")
        if branch == head:
            return head
        if (folder / ".git" / branch).is_file():
            return (folder / ".git" / branch).read_text().strip()
        packed = (folder / ".git" / "packed-refs").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return next((line.split()[0] for line in packed if line.endswith(f" {branch}")), "")


def _is_foreign(own: Path) -> bool:
    return any(part == "site-packages" or part.startswith(".") for part in own.parts)

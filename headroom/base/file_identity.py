"""What tells one file from another: all of its content, read once and remembered.

A model file of 10 GB takes some seconds; its hash is kept with its size and times, also beyond
the end of the process, so that it is read again only after a change. A package's code is hashed
as a whole.
"""

import hashlib
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

log = logging.getLogger("headroom")

CHUNK_BYTES = 64 * 1024 * 1024
BLOCK_BYTES = 1024 * 1024
READERS = 4
MAX_REMEMBERED = 2000
MAX_MEMORY_BYTES = 4 * 1024 * 1024
# A change within one step of the file system's clock keeps the times; its steps are below this.
SETTLE_NS = 2_000_000_000

# A second later: the system tells the time of its boot, from which this is counted, in seconds.
PROCESS_START_NS = min(int((psutil.Process().create_time() + 1) * 1e9), time.time_ns())

State = tuple[int, int, int]


def state_of(path: Path) -> State:
    """Return (size, modification time, change time) of a file, times in nanoseconds.

    The change time moves even when a file is replaced by one with an older modification time.
    Windows has the creation time there, which NTFS hands on ("tunneling") to a file of the same
    name made within 15 seconds: a replacement with size and time kept goes unseen. Raises OSError.
    """
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def changed_ns(state: State) -> int:
    """Return when a file was last changed: nobody can set a change time, but archives set others.

    Windows has none; there the later one of its two times must do.
    """
    return max(state[1:]) if os.name == "nt" else state[2]


class ContentHashes:
    """Hashes of whole files, remembered in `memory` (a JSON file) and in this process."""

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory
        self._known: dict[str, tuple[State, str]] | None = None
        self._lock = threading.Lock()

    def remember_in(self, memory: Path) -> None:
        """Keep what is found out from now on in this file, and use what is there already."""
        with self._lock:
            self._memory, self._known = memory, None

    def of(self, path: Path) -> str:
        """Return the hash of all of a file. Costs a read of it when it has changed.

        Raises OSError when it cannot be read or changes meanwhile.
        """
        key, state = str(path), state_of(path)
        with self._lock:
            if self._known is None:
                self._known = _read_memory(self._memory)
            found = self._known.get(key)
            if found is not None and found[0] == state:
                return found[1]
            began_ns = time.time_ns()
            digest = content_hash(path, state[0])
            if state_of(path) != state:
                raise OSError(f"{path.name} changed while it was read")
            if abs(began_ns - changed_ns(state)) > SETTLE_NS:
                self._known.pop(key, None)
                self._known[key] = (state, digest)
                self._keep(self._known)
            return digest

    def _keep(self, known: dict[str, tuple[State, str]]) -> None:
        while len(known) > MAX_REMEMBERED:
            known.pop(next(iter(known)))
        if self._memory is None:
            return
        part = self._memory.with_name(f"{self._memory.name}.{uuid.uuid4().hex}.part")
        try:
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_text(json.dumps({name: [*state, digest]
                                            for name, (state, digest) in known.items()}))
                part.replace(self._memory)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            log.debug("[Headroom] hashes of model files are not remembered: %s", error)


HASHES = ContentHashes()


def identity_of(path: Path) -> dict[str, object]:
    """Return what identifies the content of `path`: the same for the same content elsewhere.

    Raises OSError when it cannot be read.
    """
    return {"size": path.stat().st_size, "content": HASHES.of(path)}


def identities_of(paths: Iterable[Path]) -> list[dict[str, object]]:
    """Return the identities of several files, independent of their order and folder."""
    named = [{"name": path.name, **identity_of(path)} for path in paths]
    return sorted(named, key=lambda entry: (str(entry["name"]), str(entry["content"])))


def content_hash(path: Path, size: int) -> str:
    """Return a hash over `size` bytes of a file, its parts read at the same time."""
    with ThreadPoolExecutor(READERS) as pool:
        parts = list(pool.map(partial(_hash_of_part, path), range(0, size, CHUNK_BYTES)))
    return hashlib.sha256(b"".join([size.to_bytes(8, "little"), *parts])).hexdigest()


def _hash_of_part(path: Path, start: int) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        left = CHUNK_BYTES
        while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
            digest.update(block)
            left -= len(block)
    return digest.digest()


class Code(NamedTuple):
    """The code at some place: a hash over names and content, and whether it is what runs.

    `is_new`: a file changed since this process began, so what was imported may be the old one.
    """

    digest: str
    is_new: bool


def code_of(
    place: Path, suffixes: tuple[str, ...] = (".py",), start_ns: int = PROCESS_START_NS
) -> Code:
    """Return the code of a file, or of all files with these suffixes below a folder.

    What is hidden or installed there by a tool does not count.
    """
    digest, newest = hashlib.sha256(), 0
    for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
        own = file.relative_to(place) if file != place else Path(place.name)
        if file.suffix in suffixes and file.is_file() and not _is_foreign(own):
            newest = max(newest, changed_ns(state_of(file)))
            digest.update(json.dumps(own.as_posix()).encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return Code(digest.hexdigest(), newest > start_ns)


def _is_foreign(own: Path) -> bool:
    return any(part == "site-packages" or part.startswith(".") for part in own.parts)


def _read_memory(memory: Path | None) -> dict[str, tuple[State, str]]:
    """Return what is remembered; whatever is not as we write it counts as unknown."""
    try:
        if memory is None or not memory.is_file() or memory.stat().st_size > MAX_MEMORY_BYTES:
            return {}
        entries = json.loads(memory.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {name: ((entry[0], entry[1], entry[2]), entry[3])
            for name, entry in entries.items() if _is_entry(entry)}


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, list) and len(entry) == 4
        and all(type(number) is int for number in entry[:3]) and isinstance(entry[3], str)
    )

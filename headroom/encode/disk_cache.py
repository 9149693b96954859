"""A folder of embeddings: one safetensors file for each, checked when read, with a size limit.

Several servers may share the folder. A file appears whole or not at all, readers never trust what
they read, and a file that somebody else removed counts as not there.
"""

import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.device import MIB
from ..base.environment import disk_limit_bytes
from ..base.stored_value import Damaged, from_bytes, to_bytes
from ..base.untrusted_file import read_untrusted, write_whole

log = logging.getLogger("headroom")

LIMIT_VARIABLE = "HEADROOM_EMBEDDING_CACHE_MIB"
TRIM_EVERY_BYTES = 64 * MIB
STALE_PART_SECONDS = 3600
MAX_FILE_BYTES = 512 * MIB
OUR_FILE = re.compile(r"[0-9a-f]{64}\.safetensors")
OUR_PART = re.compile(r"\w+\.\d+(\.[0-9a-f]{32})?\.part")  # see write_whole


@dataclass
class EmbeddingCache:
    """Embeddings by key, below `limit_bytes` in all; the least recently used are deleted first."""

    folder: Path
    limit_bytes: int = field(default_factory=lambda: disk_limit_bytes(os.environ, LIMIT_VARIABLE))
    _written_bytes: int = 0

    def get(self, key: str) -> Any | None:
        """Return the value under `key`; None if there is none, or it is damaged.

        A damaged file stays until `put` replaces it. Marks the file as used now.
        """
        path = self._path(key)
        try:
            value = from_bytes(read_untrusted(path, MAX_FILE_BYTES), key)
        except FileNotFoundError:
            return None
        except (OSError, Damaged) as error:
            log.warning("[Headroom] %s is not usable and will be replaced: %s", path.name, error)
            return None
        with suppress(OSError):  # a read-only folder works too; its owner takes care of the limit
            os.utime(path)
        return value

    def put(self, key: str, value: Any) -> None:
        """Store `value` under `key`, all of it or nothing.

        Raises Unstorable when it has no safe form in a file, OSError when the disk refuses.
        """
        data = to_bytes(value, key)
        write_whole(self._path(key), data)
        self._written_bytes += len(data)
        if self._written_bytes >= TRIM_EVERY_BYTES:
            self.trim()

    def trim(self) -> int:
        """Remove the least recently used files above the limit, and parts left by a crash.

        Returns the bytes removed.
        """
        self._written_bytes = 0
        now, entries = time.time(), []
        for path, status in _files_in(self.folder):
            is_stale = abs(now - status.st_mtime) > STALE_PART_SECONDS
            if OUR_PART.fullmatch(path.name) and is_stale:
                _remove(path)
            elif OUR_FILE.fullmatch(path.name):
                # One that is too large or has a future date counts as never used.
                is_sane = status.st_size <= MAX_FILE_BYTES and not (
                    is_stale and status.st_mtime > now)
                entries.append((status.st_mtime if is_sane else 0.0, status.st_size, path))
        excess = sum(size for _, size, _ in entries) - self.limit_bytes
        removed = 0
        for _, size, path in sorted(entries):
            if removed >= excess:
                break
            removed += size if _remove(path) else 0
        return removed

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"


def _files_in(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the regular files of a folder; another server may remove one meanwhile."""
    with suppress(OSError):  # there is no folder, or the disk does not let us look
        for path in folder.iterdir():
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield path, status


def _remove(path: Path) -> bool:
    with suppress(OSError):  # Windows refuses while another server reads it: the next trim
        path.unlink(missing_ok=True)
        return True
    return False

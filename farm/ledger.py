"""What a farm has done so far, on disk: lines that are only ever added.

Each line is a checksum and a JSON object. A line that was torn by a crash fails its checksum and
counts as never written; so does one that was damaged later. Results do not depend on it: a prompt
is finished once its folder stands under its final name (see `outputs`).
"""

import errno
import json
import os
import time
import zlib
from collections import Counter
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from .keys import prompt_id_of
from .needs import Needs
from .words import Asked, Facts, FarmError, Json, Order, Outcome

FILE = "ledger.jsonl"
LOCK = ".lock"


class Ledger:
    """The ledger in a folder of results; FarmError while another farm has it open."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / LOCK)
            self._lock.acquire(timeout=0)
            data = _read(folder / FILE)
            self._file = (folder / FILE).open("ab", buffering=0)
        except Timeout as error:
            raise FarmError(
                f"Another farm writes to {folder}; wait for it, or choose another --results."
            ) from error
        except OSError as error:
            raise FarmError(f"{folder} cannot be written: {error.strerror or error}.") from error
        self.finished: set[str] = set()
        self.open: dict[str, str] = {}  # key → server of its last attempt, if that has not ended
        self.needs = Needs()
        self.damaged_lines = 0
        self._ended: Counter[tuple[str, str]] = Counter()
        self._begun: dict[str, set[str]] = {}  # server → keys of attempts there without an end
        self._take_up(data)

    def ended(self, key: str, server: str) -> int:
        """How many attempts of a prompt have ended on a server."""
        return self._ended[key, server]

    def has_begun(self, key: str, server: str) -> bool:
        """Whether a server may have a prompt under the id of its next attempt there."""
        return key in self._begun.get(server, ())

    def abandoned(self, server: str) -> list[str]:
        """Return the ids that a server may still have and that nobody waits for; told once."""
        begun = self._begun.get(server, set())
        left = {key for key in begun if self.open.get(key) != server}
        begun -= left
        return [prompt_id_of(key, server, self.ended(key, server)) for key in sorted(left)]

    def begins(self, order: Order, server: str) -> None:
        """Write before an attempt begins: after a crash of the driver the server is asked."""
        asked = order.asked
        self._add({"what": "begin", "key": asked.key, "server": server, "id": order.prompt_id,
                   "name": asked.name})

    def ends(self, asked: Asked, server: str, outcome: Outcome, before: Facts) -> None:
        """Write how an attempt ended, and what its server had `before`; on disk after `sync`."""
        self._add({
            "what": outcome.ending, "key": asked.key, "server": server, "kind": asked.kind,
            "name": asked.name, "text": outcome.text, "needed_mib": outcome.needed_mib,
            "room_mib": before.room_mib, "size_mib": before.total_mib, "rescued": outcome.rescued,
            "seconds": round(outcome.seconds, 3),
        })

    def sync(self) -> None:
        """Have all lines safe on disk, not only against the end of this process."""
        os.fsync(self._file.fileno())

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._lock.release()

    # ---------------------------------------------------- lines

    def _take_up(self, data: bytes) -> None:
        for line in data.splitlines():
            entry = entry_of(line)
            if entry is None:
                self.damaged_lines += 1
            else:
                self._apply(entry)
        if data and not data.endswith(b"\n"):
            self._file.write(b"\n")  # what comes next must not share the torn line

    def _add(self, entry: Json) -> None:
        line = line_of({"at": round(time.time(), 3), **entry})
        if self._file.write(line) < len(line):  # a full disk takes a part, and says nothing
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), FILE)
        self._apply(entry)

    def _apply(self, entry: Json) -> None:
        key, server, what = entry["key"], entry["server"], entry["what"]
        if what == "begin":
            self.open[key] = server
            self._begun.setdefault(server, set()).add(key)
            return
        if what == "lost":
            return  # the server may still have it, under the same id
        self.open.pop(key, None)
        self._begun.get(server, set()).discard(key)
        self._ended[key, server] += 1
        if what == "done":
            self.finished.add(key)
        self.needs.learn(
            entry["kind"], what, entry["needed_mib"], entry["room_mib"], entry["rescued"],
            entry["size_mib"],
        )


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def line_of(entry: Json) -> bytes:
    """Return an entry as its line."""
    text = json.dumps(entry, separators=(",", ":"), ensure_ascii=True).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def entry_of(line: bytes) -> Json | None:
    """Return the entry of a line, None for one that is torn or damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    entry: Json = json.loads(text)
    return entry

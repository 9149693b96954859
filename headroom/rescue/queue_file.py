"""The queue of one server on disk, and its last figures of memory: a SQLite file for each process.

Beside it is a folder with the finished outputs of prompts, each until its prompt leaves the file.

The process locks its file with SQLite's exclusive lock, which the system releases however the
process ends. So a file without a lock was left by a server that has ended.
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..base.guards import WithGuards

try:
    import sqlite3
except ImportError:  # a Python that was compiled without SQLite
    sqlite3 = None  # type: ignore[assignment]
HAS_SQLITE = sqlite3 is not None
DatabaseError: type[Exception] = OSError if sqlite3 is None else sqlite3.Error
# Not of the data: a locked file, a full or read-only disk, too many open files.
ErrorOfNow: type[Exception] = OSError if sqlite3 is None else sqlite3.OperationalError
log = logging.getLogger("headroom")

ENDING, OUTPUTS = ".sqlite", ".outputs"
KEPT_SECONDS = 600.0  # samples are kept so long
PRUNE_EVERY = 200  # samples between two clean-ups
# What is deleted is overwritten, and its pages are returned.
SETTINGS = ("auto_vacuum = FULL", "locking_mode = EXCLUSIVE", "journal_mode = WAL",
            "synchronous = NORMAL", "secure_delete = ON")
TABLES = """
CREATE TABLE IF NOT EXISTS prompt (
    prompt_id TEXT PRIMARY KEY, number REAL, running INTEGER, content TEXT);
CREATE TABLE IF NOT EXISTS sample (at REAL, node_id TEXT, rss_bytes INTEGER, room_bytes INTEGER);
"""
# For a prompt that runs, the row of the next sample (1 in files of older versions). No time: a
# clock can go back.
RUNNING = "? * (SELECT 1 + COALESCE(MAX(rowid), 0) FROM sample)"


class KeptPrompt(NamedTuple):
    """A prompt as it was in ComfyUI's queue, without its keys for paid services."""

    prompt_id: str
    number: float
    was_running: bool
    prompt: dict[str, Any]
    extra_data: dict[str, Any]
    outputs: list[str]
    samples_before: int  # so many of the file's samples are from before it began


class Sample(NamedTuple):
    """Memory at one moment: `at` in seconds since the epoch, and the node that ran."""

    at: float
    node_id: str | None
    rss_bytes: int
    room_bytes: int


class QueueFile:
    """An open file, for one thread at a time; what was written survives a kill of the process.

    No text of a prompt that has ended is in the file once the queue is empty.

    If the machine loses power, the last writes may be lost. Raises DatabaseError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._outputs = path.with_suffix(OUTPUTS)
        self._kept: dict[str, bool] = {}  # the ids in the file, and whether each runs
        self._noted = 0
        self._base = sqlite3.connect(path, timeout=0.0, check_same_thread=False)  # for any thread
        try:
            for setting in SETTINGS:
                self._base.execute(f"PRAGMA {setting}")
            with self._base:
                self._base.execute("BEGIN IMMEDIATE")
                for table in filter(str.strip, TABLES.split(";")):
                    self._base.execute(table)
        except DatabaseError:
            self._base.close()
            raise

    def keep(self, running: Sequence[tuple[Any, ...]], waiting: Sequence[tuple[Any, ...]]) -> None:
        """Make the file contain these items of ComfyUI's queue and no others."""
        items = {str(item[1]): (item, is_running) for is_running, part in
                 ((False, waiting), (True, running)) for item in part}
        new = {one: is_running for one, (_, is_running) in items.items()}
        if new == self._kept:
            return
        with self._base:
            self._delete(self._kept.keys() - new.keys())
            for prompt_id, (item, is_running) in items.items():
                if prompt_id not in self._kept:
                    self._add(prompt_id, item, is_running)
                elif self._kept[prompt_id] != is_running:
                    self._base.execute(f"UPDATE prompt SET running = {RUNNING} WHERE prompt_id = ?",
                                       (is_running, prompt_id))
        self._kept = new
        if not new:  # the log of writes still has the prompts that ended
            self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _add(self, prompt_id: str, item: tuple[Any, ...], is_running: bool) -> None:
        try:
            prompt, extra_data, outputs = item[2:5]
            # `dict`, because iterating over the items leaves out the guards.
            content = json.dumps([dict(prompt), extra_data, outputs,
                                  getattr(prompt, "stands_for", {})])
        except (TypeError, ValueError, RecursionError) as error:
            log.warning("[Headroom] prompt %s cannot be kept in a file: %s", prompt_id, error)
            return
        self._base.execute(f"INSERT OR REPLACE INTO prompt VALUES (?, ?, {RUNNING}, ?)",
                           (prompt_id, float(item[0]), is_running, content))

    def drop(self, prompt_ids: Collection[str]) -> None:
        with self._base:
            self._delete(prompt_ids)

    def _delete(self, prompt_ids: Collection[str]) -> None:
        self._base.executemany("DELETE FROM prompt WHERE prompt_id = ?",
                               [(prompt_id,) for prompt_id in prompt_ids])
        if not prompt_ids or not os.path.isdir(self._outputs):
            return
        for prompt_id in prompt_ids:
            shutil.rmtree(self.outputs_of(prompt_id), ignore_errors=True)
        with contextlib.suppress(OSError):  # it is not empty
            os.rmdir(self._outputs)

    def outputs_of(self, prompt_id: str) -> Path:
        """Return the folder for finished outputs of a prompt, which may not exist."""
        name = hashlib.sha256(prompt_id.encode()).hexdigest()[:32]
        return self._outputs / name

    def take_outputs(self, left: "QueueFile", prompt_id: str) -> None:
        """Rename the folder of finished outputs for a prompt that is about to be queued again."""
        old, new = left.outputs_of(prompt_id), self.outputs_of(prompt_id)
        try:
            if old.is_dir():
                new.parent.mkdir(exist_ok=True)
                old.replace(new)
        except OSError as error:
            log.warning("[Headroom] finished outputs of prompt %s are lost: %s", prompt_id, error)

    def note(self, sample: Sample) -> None:
        """Add a sample; those that are too old are deleted."""
        with self._base:
            self._base.execute("INSERT INTO sample VALUES (?, ?, ?, ?)", sample)
            if self._noted % PRUNE_EVERY == 0:
                self._base.execute("DELETE FROM sample WHERE at < ?", (sample.at - KEPT_SECONDS,))
        self._noted += 1

    def prompts(self) -> list[KeptPrompt]:
        """Return the kept prompts in the queue's order; ValueError or TypeError: damaged data."""
        before = "(SELECT COUNT(*) FROM sample WHERE sample.rowid < running)"
        rows = self._base.execute(f"SELECT prompt_id, number, running, {before}, content "
                                  "FROM prompt ORDER BY running DESC, number, rowid")
        return [KeptPrompt(str(prompt_id), float(number), bool(running),
                           *_content(content), before)
                for prompt_id, number, running, before, content in rows]

    def samples(self) -> list[Sample]:
        """Return the samples of the last minutes, in the order of writing (a clock can go back)."""
        rows = self._base.execute("SELECT at, node_id, rss_bytes, room_bytes FROM sample "
                                  "ORDER BY rowid")
        return [Sample(float(at), None if node_id is None else str(node_id), int(rss), int(room))
                for at, node_id, rss, room in rows]

    def close(self) -> None:
        self._base.close()

    def remove(self) -> None:
        """Close the file and delete it; empty it stays while Windows refuses that, because others,
        a virus scanner for instance, read it."""
        with contextlib.suppress(DatabaseError), self._base:
            self._base.execute("DELETE FROM prompt")
        self.close()
        with contextlib.suppress(OSError):
            for ending in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        shutil.rmtree(self._outputs, ignore_errors=True)


def _content(text: str) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    prompt, extra_data, outputs, *guards = json.loads(text)
    stands_for = guards[0] if guards else {}
    if not (isinstance(prompt, dict) and isinstance(extra_data, dict)
            and isinstance(outputs, list) and isinstance(stands_for, dict)
            and all(isinstance(node, dict) for node in prompt.values())):
        raise ValueError("a stored prompt is no prompt")
    return WithGuards(prompt, stands_for) if stands_for else prompt, extra_data, outputs


def new_file(folder: Path) -> QueueFile:
    """Make the folder, and in it a file for this process. Raises OSError, DatabaseError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}{ENDING}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))  # for this user only, its log too
    return QueueFile(path)

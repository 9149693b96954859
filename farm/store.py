"""What a door has accepted and what came of it, in SQLite: accepted means kept.

A prompt has one row from its acceptance on. Its result is written by one statement that asks
whether the prompt still has none, so that no result is there twice, whoever else finished it.
"""

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from .needs import Need, Needs
from .words import FarmError, Json, Past

FILE = "farm.sqlite"
MOST_ENDED = 10_000  # as many as ComfyUI's own history keeps
SECRETS = ("auth_token_comfy_org", "api_key_comfy_org")
TABLES = """
CREATE TABLE IF NOT EXISTS prompts (
    id TEXT PRIMARY KEY, number REAL NOT NULL, state TEXT NOT NULL, prompt TEXT NOT NULL,
    extra TEXT NOT NULL, past TEXT NOT NULL, server TEXT, entry TEXT, ended_at REAL);
CREATE INDEX IF NOT EXISTS by_state ON prompts (state, number);
CREATE INDEX IF NOT EXISTS by_end ON prompts (ended_at);
CREATE TABLE IF NOT EXISTS needs (
    kind TEXT PRIMARY KEY, enough REAL, short REAL, rescued REAL, short_size REAL);
CREATE TABLE IF NOT EXISTS abandoned (server TEXT, attempt TEXT PRIMARY KEY);
"""


@dataclass(frozen=True)
class Kept:
    """A prompt as it is kept; `server` runs it, or had it last. `entry`: its result, if any."""

    id: str
    number: float
    state: str
    prompt: Json
    extra: Json
    past: Past
    server: str | None = None
    entry: Json | None = None


class Store:
    """The store in a folder; FarmError where another farm has it open, or it cannot be written."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / FILE
            path.touch(0o600)  # prompts are nobody else's
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA busy_timeout = 500")
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(TABLES)
            self._db.execute("BEGIN IMMEDIATE")  # takes the lock, which is kept
            self._db.execute(
                "DELETE FROM prompts WHERE ended_at < (SELECT ended_at FROM prompts WHERE ended_at "
                "IS NOT NULL ORDER BY ended_at DESC LIMIT 1 OFFSET ?)", (MOST_ENDED,))
            self._db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            if "locked" in str(error):
                raise FarmError(
                    f"Another farm keeps its prompts in {folder}; wait for it, or choose another "
                    "--results."
                ) from error
            raise FarmError(f"{folder / FILE} cannot be used: {error}.") from error
        rows = self._db.execute("SELECT * FROM needs")
        self.needs = Needs({kind: Need(*figures) for kind, *figures in rows})

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """What is written here is there whole or not at all, and costs the disk one turn."""
        with self._db:  # which ends what begins here
            self._db.execute("BEGIN")
            yield

    # ---------------------------------------------------- what is accepted

    def accept(self, prompt_id: str, number: float, prompt: Json, extra: Json) -> Kept:
        """Keep a prompt; on disk when this returns."""
        self._db.execute(
            "INSERT INTO prompts VALUES (?, ?, 'waiting', ?, ?, '{}', NULL, NULL, NULL)",
            (prompt_id, number, json.dumps(prompt), json.dumps(extra)))
        return Kept(prompt_id, number, "waiting", prompt, extra, Past())

    def last_number(self) -> float:
        [found] = self._db.execute("SELECT max(abs(number)) FROM prompts").fetchone()
        return float(found or 0.0)

    def find(self, prompt_id: str) -> Kept | None:
        return next(self._kept("WHERE id = ?", (prompt_id,)), None)

    def open(self) -> Iterator[Kept]:
        """Yield prompts without a result, in the order of the queue."""
        return self._kept("WHERE state IN ('waiting', 'running') ORDER BY number")

    def page(
        self, states: Sequence[str], newest_first: bool, most: int, skip: int
    ) -> tuple[list[Kept], int]:
        """Return some of the prompts in these states, and how many there are."""
        which = f"FROM prompts WHERE state IN ({', '.join('?' * len(states))})"
        order = f"ORDER BY rowid {'DESC' if newest_first else 'ASC'}"
        found = self._kept(  # only these are read whole
            f"WHERE rowid IN (SELECT rowid {which} {order} LIMIT ? OFFSET ?) {order}",
            (*states, most, skip))
        [total] = self._db.execute(f"SELECT count(*) {which}", states).fetchone()
        return list(found), total

    def _kept(self, where: str, values: tuple[str | int, ...] = ()) -> Iterator[Kept]:
        for row in self._db.execute(
            f"SELECT id, number, state, prompt, extra, past, server, entry FROM prompts {where}",
            values,
        ):
            name, number, state, prompt, extra, past, server, entry = row
            yield Kept(name, number, state, json.loads(prompt), json.loads(extra),
                       Past(**json.loads(past)), server, json.loads(entry) if entry else None)

    def begins(self, prompt_id: str, server: str) -> None:
        """Write before a server gets a prompt: after a crash that server is asked for it."""
        self._db.execute("UPDATE prompts SET state = 'running', server = ? WHERE id = ?",
                         (server, prompt_id))

    def waits(self, prompt_id: str, past: Past) -> None:
        self._db.execute("UPDATE prompts SET state = 'waiting', past = ? WHERE id = ?",
                         (json.dumps(past.__dict__), prompt_id))

    def ends(self, prompt_id: str, server: str, state: str, entry: Json) -> bool:
        """Keep a prompt's result; False where it has one, which stays. Secrets of it are gone."""
        kept = self.find(prompt_id)
        done = self._db.execute(
            "UPDATE prompts SET state = ?, server = ?, entry = ?, ended_at = ?, extra = ? "
            "WHERE id = ? AND entry IS NULL",
            (state, server, json.dumps(entry), time.time(),
             json.dumps(without_secrets(kept.extra) if kept else {}), prompt_id))
        return done.rowcount == 1

    def drop(self, prompt_ids: Iterable[str]) -> None:
        self._db.executemany("DELETE FROM prompts WHERE id = ?", [(one,) for one in prompt_ids])

    def drop_ended(self, prompt_ids: Iterable[str] | None) -> None:
        """Forget these results, or every one; what waits or runs stays."""
        which = None if prompt_ids is None else json.dumps(list(prompt_ids))
        self._db.execute(
            "DELETE FROM prompts WHERE entry IS NOT NULL AND "
            "(:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))", {"ids": which})

    # ---------------------------------------------------- what came of it

    def entries(self, most: int = MOST_ENDED, offset: int = -1) -> Iterator[tuple[str, Json]]:
        """Yield ids and history entries, oldest first: the last ones, or from an offset on."""
        newest, skip = ("DESC", 0) if offset < 0 else ("ASC", offset)
        yield from ((name, json.loads(entry)) for name, entry, _ in self._db.execute(
            f"SELECT * FROM (SELECT id, entry, ended_at FROM prompts WHERE ended_at > 0 "
            f"ORDER BY ended_at {newest} LIMIT ? OFFSET ?) ORDER BY ended_at", (most, skip)))

    def learn(self, kind: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO needs VALUES (?, ?, ?, ?, ?)",
                         (kind, *astuple(self.needs.learned(kind))))

    def abandon(self, server: str, attempt: str) -> None:
        """A server may still have this attempt, and nobody waits for it."""
        self._db.execute("INSERT OR REPLACE INTO abandoned VALUES (?, ?)", (server, attempt))

    def abandoned(self, server: str) -> tuple[str, ...]:
        """Return what a server is to forget."""
        rows = self._db.execute("SELECT attempt FROM abandoned WHERE server = ?", (server,))
        return tuple(attempt for [attempt] in rows)

    def forgotten(self, attempts: Iterable[str]) -> None:
        self._db.executemany("DELETE FROM abandoned WHERE attempt = ?",
                             [(attempt,) for attempt in attempts])


def without_secrets(extra: Mapping[str, object]) -> Json:
    """Return an `extra_data` as others may see it."""
    return {name: value for name, value in extra.items() if name not in SECRETS}

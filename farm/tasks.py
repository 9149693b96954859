"""What a door does beside answering its clients, and how it goes on where its store failed."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

STORE_SECONDS = 1.0  # after an error of the store


class Tasks:
    """Runs work. After an error of the store it ends all of it and calls `reopen`.

    Memory may then say what the disk does not: as after a restart only what is on disk counts.
    """

    def __init__(self, says: Callable[[str], None], reopen: Callable[[], None]) -> None:
        self._says, self._reopen = says, reopen
        self._running: set[asyncio.Task[None]] = set()

    def go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._is_done)

    async def end(self) -> None:
        await asyncio.gather(*self._stop(), return_exceptions=True)

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """For what a client asks, who is told of the store's error too."""
        try:
            yield
        except sqlite3.Error as error:
            self._fails(error)
            raise

    def _stop(self) -> set["asyncio.Task[None]"]:
        others = self._running - {asyncio.current_task()}
        for task in others:
            task.cancel()
        return others

    def _is_done(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fails(error)

    def _fails(self, error: BaseException) -> None:
        self._says(f"The farm cannot go on with a prompt: {type(error).__name__}: {error}")
        if isinstance(error, sqlite3.Error):
            self.go(self._again())

    async def _again(self) -> None:
        await asyncio.sleep(STORE_SECONDS)
        self._stop()
        self._reopen()

"""The servers of a farm and what each does: it sleeps, starts, waits for work, works, is away.

And the tasks in which a door has them do it.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .placement import Server
from .words import Facts, Json, Order, Outcome
from .worker import ServerFailed

AGAIN_SECONDS = (2.0, 60.0)  # between attempts to have a server back: at first, at most
STORE_SECONDS = 1.0  # after an error of the store
HEARD_SECONDS = 3.0  # for the connection to a server; a prompt runs without it too


class Work(Protocol):
    """What starts a server and runs its prompts: a `Worker`, here or in a replica of Ray Serve."""

    async def start(self) -> Facts: ...
    async def run(self, order: Order) -> Outcome: ...
    def wake(self) -> None: ...
    async def close(self) -> None: ...


@dataclass
class Seat:
    """A server and what it does; `why` says what was last wrong with it.

    `answers`: it may be listened to; `is_heard`: somebody listens. One that `may_sleep` is started
    when it `is_wanted`, and ended by Ray Serve when it has had no work for a while.
    """

    server: Server
    work: Work
    may_sleep: bool = False
    state: Literal["asleep", "starting", "idle", "busy", "away"] = "away"
    was_there: bool = False
    failed_starts: int = 0
    losses: int = 0
    why: str = ""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    is_heard: asyncio.Event = field(default_factory=asyncio.Event)
    is_wanted: asyncio.Event = field(default_factory=asyncio.Event)

    def told(self) -> Json:
        """What clients may know of it."""
        facts = self.server.facts
        return {"name": self.server.name, "state": self.state, "url": facts.url,
                "total_mib": facts.total_mib, "room_mib": facts.room_mib,
                "was_there": self.was_there, "failed_starts": self.failed_starts,
                "losses": self.losses, "why": self.why}


class Seats:
    """Starts or finds every server, again where it is lost; calls `is_away` for each that is."""

    def __init__(
        self, works: Mapping[str, Work], sleepers: Collection[str],
        is_away: Callable[[Seat], None], says: Callable[[str], None],
    ) -> None:
        self.of: dict[str, Seat] = {}
        for name, work in works.items():
            sleeps = name in sleepers
            self.of[name] = Seat(Server(name), work, sleeps, "asleep" if sleeps else "away")
        self._is_away, self._says = is_away, says

    def there(self) -> list[Seat]:
        """The servers that answer, in the order in which they were named."""
        return [seat for seat in self.of.values() if seat.state in ("idle", "busy")]

    def free(self) -> list[Seat]:
        """The servers that may have a prompt: those that are there first, then by their size."""
        return sorted((seat for seat in self.of.values() if seat.state in ("idle", "asleep")),
                      key=lambda seat: (seat.state == "asleep", seat.server.size_mib))

    def want(self, seat: Seat) -> None:
        """Let a server start that sleeps."""
        if seat.state == "asleep":
            seat.state = "starting"
            seat.is_wanted.set()

    def goes(self, seat: Seat, why: str) -> None:
        """A server was lost, or sleeps; what waited for it may go elsewhere."""
        sleeps = seat.may_sleep and seat.state == "idle"
        seat.state = "asleep" if seat.may_sleep else "away"
        seat.answers.clear()
        if not sleeps:
            self._says(f"{seat.server.name} is away: {why}")
            seat.why = why
            seat.losses += 1
        self._is_away(seat)

    async def have(self, seat: Seat) -> None:
        """Start or find a server, as often as it takes."""
        if seat.may_sleep:
            await seat.is_wanted.wait()
        while True:
            seat.state = "starting"
            try:
                facts = await seat.work.start()
            except ServerFailed as error:
                if not seat.failed_starts:
                    self._says(f"{seat.server.name} is away: {error}")
                seat.failed_starts += 1
                seat.state, seat.why = "away", str(error)
                self._is_away(seat)
                first, most = AGAIN_SECONDS
                await asyncio.sleep(min(most, first * 2.0 ** min(seat.failed_starts - 1, 9)))
            else:
                break
        seat.server.facts, seat.server.models = facts, frozenset()  # nothing is loaded
        seat.answers.set()
        seat.is_wanted.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(seat.is_heard.wait(), HEARD_SECONDS)
        seat.state, seat.was_there, seat.failed_starts = "idle", True, 0
        self._says(f"{seat.server.name} is there.")


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

"""The loop of a farm: give out prompts, take results, until nothing is left to do."""

import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from . import outputs
from .counts import Counts
from .keys import prompt_id_of
from .ledger import Ledger
from .placement import Queue, Server, Sizes, Waiting
from .seat import Seat
from .verdict import Limits, Verdict, verdict
from .words import Asked, Facts, FarmError, Order, Outcome

LIMITS = Limits()
AHEAD = 1000  # prompts that are read before they are needed, at least
REPEATS = 10_000  # read again one after another: a generator that yields nothing new any more
TURN_SECONDS = 1.0
TURNED_AWAY = 3  # times for want of room; then a prompt is tried all the same


class Calls(Protocol):
    """What Ray does for the driver, as `cluster.Cluster` has it."""

    def start(self, server: str) -> None: ...
    def run(self, server: str, order: Order) -> None: ...
    def wait(self, seconds: float) -> list[tuple[str, Any]]: ...


class Listener(Protocol):
    """Is told what happens."""

    def changes(self, farm: "Driver") -> None: ...
    def says(self, text: str) -> None: ...


class Driver:
    """One run of a farm. `after_oom` = "rescue": a server first tries again itself, guarded."""

    def __init__(
        self, calls: Calls, ledger: Ledger, results: Path, servers: Sequence[str],
        listener: Listener, adopted: Collection[str] = (),
        after_oom: Literal["rescue", "move"] = "rescue", limits: Limits = LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = calls
        self._ledger = ledger
        self._results = results
        self._listener = listener
        self._after_oom = after_oom
        self._limits = limits
        self._clock = clock
        self._adopted = frozenset(adopted)  # they outlive a driver, with what they run
        self._seats = {name: Seat(Server(name)) for name in servers}
        self._queue = Queue(ledger.needs)
        self._finished = ledger.finished | outputs.finished_keys(results)
        self._known: set[str] = set()
        self._repeats = 0  # prompts read in a row that this run has read before
        self.counts = Counts()
        self.failures: dict[str, str] = {}

    @property
    def seats(self) -> list[Seat]:
        """Every server."""
        return list(self._seats.values())

    @property
    def states(self) -> list[str]:
        """What each server does."""
        return [seat.state for seat in self.seats]

    @property
    def waiting(self) -> int:
        """How many prompts are read and wait."""
        return len(self._queue)

    def run(self, prompts: Iterator[Asked]) -> None:
        """Run every prompt to its end; FarmError when no server is left."""
        shutil.rmtree(self._results / outputs.PARTIAL, ignore_errors=True)
        is_read = False
        while True:
            is_read = is_read or self._read(prompts)
            self._have_servers()
            self._give_out()
            if is_read and not self._queue and not self._are("busy"):
                return
            self._expect_progress()
            ended = self._calls.wait(TURN_SECONDS)
            for name, result in ended:
                self._take(self._seats[name], result)
            if ended:  # once for all of them: a disk does that some hundred times a second
                outputs.sync(self._results)
                self._ledger.sync()
            self._listener.changes(self)

    # ---------------------------------------------------- prompts

    def _read(self, prompts: Iterator[Asked]) -> bool:
        """Read until enough wait; return whether all are read."""
        enough = max(AHEAD, 4 * len(self._seats))
        while len(self._queue) < enough:
            asked = next(prompts, None)
            if asked is None:
                return True
            if asked.key in self._known:
                self._repeats += 1
                if self._repeats < REPEATS:
                    continue
                self._listener.says(
                    f"{asked.name}: the last {REPEATS:,} prompts were all read before; "
                    "no more are read."
                )
                return True
            self._repeats = 0
            self._known.add(asked.key)
            if asked.key in self._finished:
                self.counts.finished_before += 1
                continue
            begun_on = self._ledger.open.get(asked.key)
            resumes_on = begun_on if begun_on in self._adopted else None
            self._queue.add(Waiting(asked, resumes_on=resumes_on))
        return False

    def _give_out(self) -> None:
        """Small servers choose first, so that the large ones are left what only they can do."""
        idle = sorted(self._in("idle"), key=lambda seat: seat.server.size_mib)
        if not (idle and self._queue):
            return
        left = [seat for seat in self.seats if seat.state != "gone"]
        sizes = Sizes([seat.server for seat in left if seat.was_there],
                      may_come=any(not seat.was_there for seat in left))
        for seat in idle:
            waiting = self._queue.take(seat.server, sizes)
            if waiting is not None:
                self._begin(seat, waiting, sizes)

    def _begin(self, seat: Seat, waiting: Waiting, sizes: Sizes) -> None:
        asked, server = waiting.asked, seat.server
        need = self._ledger.needs.of(asked.kind)
        fit = need.fit(server.facts.room_mib, server.size_mib)
        ended = self._ledger.ended(asked.key, server.name)
        is_patient = waiting.turned_away < TURNED_AWAY
        order = Order(
            asked, prompt_id_of(asked.key, server.name, ended),
            room_mib=need.enough_mib if fit == "fits" and is_patient else 0.0,
            guard=fit in ("guarded", "too small") and server.facts.has_headroom,
            rescue=self._after_oom == "rescue" or sizes.is_largest(server),
            resumes=self._ledger.has_begun(asked.key, server.name),
            abandoned=tuple(self._ledger.abandoned(server.name)),
        )
        self._ledger.begins(order, server.name)
        seat.state, seat.waiting, server.models = "busy", waiting, asked.models
        self._calls.run(server.name, order)

    # ---------------------------------------------------- results

    def _take(self, seat: Seat, result: Any) -> None:
        if seat.state == "starting":
            self._started(seat, result)
            return
        waiting, seat.waiting = seat.waiting, None
        assert waiting is not None, "an idle server has no result"
        self._queue.is_over(waiting.asked.kind)
        outcome = result if isinstance(result, Outcome) else Outcome("lost", str(result))
        before = seat.server.facts
        if outcome.ending == "done":
            self._commit(waiting, outcome)
        self._ledger.ends(waiting.asked, seat.server.name, outcome, before)
        self._leave(seat, outcome)
        servers = [other.server for other in self.seats if other.state != "gone"]
        decided = verdict(
            waiting, seat.server, outcome, servers, self._ledger.needs, self._limits
        )
        self._follow(decided, outcome)

    def _commit(self, waiting: Waiting, outcome: Outcome) -> None:
        """Put the results in place; what was finished elsewhere meanwhile stays as it is."""
        key = waiting.asked.key
        folder = Path(outcome.folder or self._results / outputs.PARTIAL / key)
        try:
            if outcome.payload:
                outputs.unpack(outcome.payload, folder)
            outputs.commit(folder, self._results / key)
        except OSError as error:
            raise FarmError(
                f"The results of {waiting.asked.name} cannot be kept in {self._results}: "
                f"{error.strerror or error}; make room there and start again."
            ) from error
        self.counts.rescued += outcome.rescued

    def _leave(self, seat: Seat, outcome: Outcome) -> None:
        if outcome.ending == "lost":
            self.counts.lost += 1
            self._is_away(seat, outcome.text)
            return
        seat.state = "idle"
        seat.server.facts = outcome.facts or seat.server.facts

    def _follow(self, decided: Verdict, outcome: Outcome) -> None:
        asked = decided.waiting.asked
        if decided.what == "finished":
            self.counts.finished += 1
            self._finished.add(asked.key)
        elif decided.what == "failed":
            self.counts.failed += 1
            self.failures[asked.name] = decided.text
            self._listener.says(f"{asked.name} failed: {decided.text}")
        else:
            self.counts.moved += outcome.ending == "out of memory"
            self._queue.add(decided.waiting)

    # ---------------------------------------------------- servers

    def _have_servers(self) -> None:
        for seat in self._in("away"):
            if self._clock() >= seat.again_at:
                seat.state = "starting"
                self._calls.start(seat.server.name)

    def _started(self, seat: Seat, result: Any) -> None:
        if isinstance(result, Facts):
            seat.comes(result)
            return
        seat.failed_starts += 1
        self._is_away(seat, str(result))

    def _is_away(self, seat: Seat, why: str) -> None:
        """What waited for it may go elsewhere; it is asked for again later."""
        self._listener.says(f"{seat.server.name} is away: {why}")
        seat.goes(self._clock())
        for waiting in self._queue.all():
            if waiting.resumes_on == seat.server.name:
                waiting.resumes_on = None

    def _expect_progress(self) -> None:
        """FarmError when nobody is left; prompts that nobody may have are given up."""
        there = self._in("idle", "busy", "starting")
        if not there and not any(seat.was_there for seat in self._in("away")):
            raise FarmError("No server of the farm can be had; each said why above.")
        if self._queue and len(self._in("idle")) + len(self._in("gone")) == len(self._seats):
            for waiting in self._queue.drain():
                self.counts.failed += 1
                text = "no server that is left may have it"
                self.failures[waiting.asked.name] = text
                self._listener.says(f"{waiting.asked.name} failed: {text}")

    def _in(self, *states: str) -> list[Seat]:
        return [seat for seat in self._seats.values() if seat.state in states]

    def _are(self, state: str) -> bool:
        return bool(self._in(state))

"""The door: it accepts prompts, gives each to a server, and tells clients how each ended."""

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Literal

from .clients import Clients, event
from .history import ENDINGS, ending_of, final
from .keys import attempt_id
from .line import Begun, Line, Refused, order_for, wish_of
from .placement import Sizes, Waiting
from .seat import Seat, Seats, Tasks, Work
from .store import Store
from .verdict import Limits, verdict
from .words import FarmError, Json, Order, Outcome

LIMITS = Limits()
CLIENT_ID = "headroom-farm-" + uuid.uuid4().hex  # under which the servers know the door
FIRST_SECONDS = 3.0  # a server says at once why it refuses a prompt


class Door:
    """Accepts prompts, gives them to servers, follows them. `sleepers` start when wanted."""

    def __init__(
        self, store: Store, works: Mapping[str, Work], says: Callable[[str], None],
        after_oom: Literal["rescue", "move"] = "rescue", limits: Limits = LIMITS,
        guesses: bool = False, sleepers: Collection[str] = (),
    ) -> None:
        self.store, self.clients = store, Clients()
        self._seats = Seats(works, sleepers, self._is_away, says)
        self.seats = self._seats.of
        self.there, self.want = self._seats.there, self._seats.want
        self.begun: dict[str, Begun] = {}  # by server
        self._after_oom, self._limits, self._guesses = after_oom, limits, guesses
        self._first: dict[str, asyncio.Future[Json | None]] = {}
        self._tasks = Tasks(says, self.open)
        self._number = store.last_number()

    # ---------------------------------------------------- from start to end

    def open(self) -> None:
        """Go on with what is on disk, and start or find every server that is not there."""
        self._line, self.begun = Line(self.store), {}
        for kept in self.store.open():
            has_begun = kept.state == "running" and kept.server in self.seats
            self._line.join(kept, kept.server if has_begun else None)
        for seat in self.seats.values():
            if seat.state in ("idle", "busy"):
                seat.state = "idle"
            else:
                self._tasks.go(self._have(seat))
        self._give_out()  # servers that sleep start for what waits already

    async def close(self) -> None:
        """Stop; prompts that run stay with servers that were adopted, and are taken up again."""
        await self._tasks.end()
        await asyncio.gather(*(seat.work.close() for seat in self.seats.values()))

    # ---------------------------------------------------- what clients ask

    async def accept(self, body: Any) -> tuple[str, float]:
        """Keep a prompt and return its id and number; FarmError or Refused for a bad one.

        A prompt that is here under the same id is not queued twice.
        """
        asked, prompt_id, extra = wish_of(body)
        if (known := self.store.find(prompt_id)) is not None:
            if known.prompt != asked.prompt:
                raise FarmError(f"another prompt has the prompt_id {prompt_id[:80]!r} already.")
            return prompt_id, known.number
        number = self._numbered(body)
        first = self._first[prompt_id] = asyncio.get_running_loop().create_future()
        try:
            with self._tasks.keeping(), self.store.at_once():
                self._line.join(self.store.accept(prompt_id, number, asked.prompt, extra))
                self._give_out()
            if any(one.kept.id == prompt_id for one in self.begun.values()):
                await asyncio.wait([first], timeout=FIRST_SECONDS)
        finally:
            del self._first[prompt_id]
        if first.done() and (answer := first.result()) is not None:
            raise Refused(answer)
        return prompt_id, number

    def _numbered(self, body: Json) -> float:
        if isinstance(body.get("number"), (int, float)):
            return float(body["number"])
        self._number += 1
        return -self._number if body.get("front") else self._number

    def cancel(self, prompt_ids: Collection[str] | None) -> list[str]:
        """Take prompts out that wait, or every one; return those that did."""
        with self._tasks.keeping():
            out = self._line.cancel(prompt_ids)
        self._tell_status()
        return out

    def interrupt(self, prompt_id: str | None) -> list[tuple[Seat, str]]:
        """Return the servers that run this prompt, or any, with its id there, to interrupt it."""
        found = [(self.seats[name], one) for name, one in self.begun.items()
                 if prompt_id in (None, one.kept.id)]
        for _, one in found:
            one.is_cancelled = True
        return [(seat, one.attempt) for seat, one in found]

    @property
    def remaining(self) -> int:
        return len(self._line.queue) + len(self.begun)

    def status(self) -> Json:
        """How much is left to do, as ComfyUI tells it."""
        return {"status": {"exec_info": {"queue_remaining": self.remaining}}}

    def _tell_status(self) -> None:
        self.clients.tell_all(event("status", self.status()))

    # ---------------------------------------------------- which server gets which prompt

    def _give_out(self) -> None:
        """Small servers choose first, so that the large ones are left what only they can do."""
        queue = self._line.queue
        free = self._seats.free() if queue else []
        if free:
            sizes = Sizes([seat.server for seat in self.seats.values() if seat.was_there],
                          may_come=any(not seat.was_there for seat in self.seats.values()))
            for seat in free:
                if not queue:  # else a thousand idle servers would be asked for each prompt
                    break
                if seat.state == "asleep":
                    start = sum(one.state == "starting" for one in self.seats.values())
                    if start < len(queue) and queue.has_for(seat.server, sizes):
                        self.want(seat)
                elif (waiting := queue.take(seat.server, sizes)) is not None:
                    self._begin(seat, waiting, sizes)
        self._tell_status()

    def _begin(self, seat: Seat, waiting: Waiting, sizes: Sizes) -> None:
        name, server = seat.server.name, seat.server
        kept = self.store.find(waiting.asked.key)
        assert kept is not None, "what waits is kept"
        asked = replace(waiting.asked, prompt=kept.prompt,
                        extra_data={**kept.extra, "client_id": CLIENT_ID})
        attempt = attempt_id(kept.id, name, waiting.past.ended.get(name, 0))
        order = order_for(
            replace(waiting, asked=asked), server, attempt, self.store.needs.of(asked.kind),
            self.store.abandoned(name), self._after_oom == "rescue" or sizes.is_largest(server),
            sizes.most_room_mib if self._guesses else 0.0)
        self.store.begins(kept.id, name)
        seat.state, server.models = "busy", asked.models
        client_id = kept.extra.get("client_id")
        self.begun[name] = Begun(
            waiting, attempt, client_id if isinstance(client_id, str) else "", kept)
        self._tasks.go(self._run(seat, order))

    # ---------------------------------------------------- what came of it

    def starts(self, server: str) -> None:
        """A server has begun with its prompt: it did not refuse it."""
        first = self._first.get(self.begun[server].kept.id)
        if first is not None and not first.done():
            first.set_result(None)

    async def _run(self, seat: Seat, order: Order) -> None:
        outcome = await seat.work.run(order)
        with self.store.at_once():
            self._take(seat, order, outcome)
            self._give_out()

    def _take(self, seat: Seat, order: Order, outcome: Outcome) -> None:
        begun, before = self.begun.pop(seat.server.name), seat.server.facts
        waiting, past, name = begun.waiting, begun.waiting.past, seat.server.name
        self._line.queue.is_over(waiting.asked.kind)
        if outcome.ending == "lost":
            self.store.abandon(name, order.prompt_id)
            self._loses(seat, outcome.text)
        else:
            self.store.forgotten([*order.abandoned, order.prompt_id])
            past.ended[name] = past.ended.get(name, 0) + (outcome.ending != "no room")
            past.moved += outcome.ending == "out of memory"
            seat.state, seat.server.facts = "idle", outcome.facts or before
            self.store.needs.learn(
                waiting.asked.kind, outcome.ending, outcome.needed_mib, before.room_mib,
                outcome.rescued, before.total_mib)
            self.store.learn(waiting.asked.kind)
        servers = [other.server for other in self.seats.values()]
        decided = verdict(waiting, seat.server, outcome, servers, self.store.needs, self._limits)
        if isinstance(decided, str):
            self._end(seat, begun, outcome, decided)
        elif begun.is_cancelled:
            self._end(seat, begun, outcome, "it was cancelled")
        else:
            self._line.again(decided)

    def _end(self, seat: Seat, begun: Begun, outcome: Outcome, text: str) -> None:
        """Keep the result, and then tell whose prompt it was."""
        key, past, name = begun.kept.id, begun.waiting.past, seat.server.name
        is_refused = outcome.ending == "refused"
        first = self._first.get(key)
        if first is not None and not first.done():
            if is_refused:
                self.store.drop([key])
                first.set_result(outcome.entry or {"error": outcome.text, "node_errors": {}})
                return
            first.set_result(None)
        entry = final(begun.kept, {} if is_refused else outcome.entry, text, name, outcome, past)
        kind, data = ending_of(entry)
        if self.store.ends(key, name, ENDINGS[kind], entry):
            self.clients.tell(begun.client_id, event(kind, data))
            self.clients.tell(begun.client_id,
                              event("executing", {"node": None, "prompt_id": key}))

    # ---------------------------------------------------- servers

    async def _have(self, seat: Seat) -> None:
        await self._seats.have(seat)
        self._give_out()

    def is_deaf(self, seat: Seat) -> None:
        """The connection to a server broke: see whether it still runs its prompt."""
        seat.is_heard.clear()
        seat.work.wake()
        if seat.state == "idle":
            self._loses(seat, "its connection broke")

    def _loses(self, seat: Seat, why: str) -> None:
        self._seats.goes(seat, why)
        self._tasks.go(self._have(seat))

    def _is_away(self, seat: Seat) -> None:
        self._tasks.go(self._releases(seat.server.name))  # once what goes on is over

    async def _releases(self, server: str) -> None:
        with self.store.at_once():
            self._line.release(server)
            self._give_out()

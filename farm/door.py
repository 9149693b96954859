"""The heart of a door: it accepts prompts, gives each to a server, and tells what came of it."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from .clients import Clients, event, tagged
from .keys import attempt_id, kind_of, models_of
from .placement import Queue, Server, Sizes, Waiting
from .prompts import asked_for
from .seat import Seat
from .store import Kept, Past, Store, without_secrets
from .verdict import Limits, Verdict, verdict
from .words import Asked, Facts, FarmError, Json, Order, Outcome
from .worker import ServerFailed

LIMITS = Limits()
CLIENT_ID = "headroom-farm-" + uuid.uuid4().hex  # under which the servers know the door
LONGEST_ID = 200
OVERDUE_SECONDS = 60.0  # then a prompt goes before those that suit a server better
HEARD_SECONDS = 3.0  # for the connection to a server; a prompt runs without it too
FIRST_SECONDS = 3.0  # a server says at once why it refuses a prompt
TURNED_AWAY = 3  # times for want of room; then a prompt is tried all the same


class Calls(Protocol):
    """What runs on each server's behalf: threads of this process, or replicas of Ray Serve."""

    async def start(self, server: str) -> Facts: ...
    async def run(self, server: str, order: Order) -> Outcome: ...
    def wake(self, server: str) -> None: ...
    def close(self) -> None: ...


@dataclass
class Begun:
    """The prompt that a server runs: `attempt` is its id there, `client_id` whose it is."""

    waiting: Waiting
    attempt: str
    client_id: str
    number: float
    prompt: Json
    extra: Json
    last_node: str = ""  # the message that said which node runs
    is_cancelled: bool = False


class Refused(ValueError):
    """Every server refuses the prompt; `answer` is what the last of them said."""

    def __init__(self, answer: Json) -> None:
        super().__init__("the prompt is refused")
        self.answer = answer


class Door:
    """Accepts, places, follows. `after_oom` = "rescue": a server first tries again, guarded."""

    def __init__(
        self, store: Store, servers: Sequence[str], calls: Calls, clients: Clients,
        says: Callable[[str], None], after_oom: Literal["rescue", "move"] = "rescue",
        limits: Limits = LIMITS,
    ) -> None:
        self.store, self.clients = store, clients
        self.seats = {name: Seat(Server(name)) for name in servers}
        self.begun: dict[str, Begun] = {}  # by server
        self.answers = {name: asyncio.Event() for name in servers}  # it may be listened to
        self.is_heard = {name: asyncio.Event() for name in servers}
        self._calls, self._says = calls, says
        self._after_oom, self._limits = after_oom, limits
        self._queue = Queue(store.needs, OVERDUE_SECONDS)
        self._past: dict[str, Past] = {}
        self._first: dict[str, asyncio.Future[Json | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = store.last_number()

    # ---------------------------------------------------- from start to end

    def open(self) -> None:
        """Take up what an earlier door has accepted, and have every server."""
        for kept in self.store.open():
            self._line_up(kept, kept.server if kept.state == "running" else None)
        for seat in self.seats.values():
            self._go(self._have(seat))

    async def close(self) -> None:
        """Stop; prompts that run stay with servers that were adopted, and are taken up again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._calls.close()

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._is_done)

    def _is_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._says(f"The farm cannot go on with a prompt: {type(error).__name__}: {error}")

    # ---------------------------------------------------- what clients ask

    async def accept(self, body: Any) -> tuple[str, float]:
        """Keep a prompt and return its id and number; FarmError or Refused for a bad one.

        A prompt that is here under the same id is not queued twice.
        """
        asked = asked_for("the body", body)
        prompt_id, extra = body.get("prompt_id") or str(uuid.uuid4()), dict(asked.extra_data)
        for name, value in (("prompt_id", prompt_id), ("client_id", body.get("client_id") or "")):
            if not isinstance(value, str) or len(value) > LONGEST_ID:
                raise FarmError(f"{name} is expected to be a text of at most {LONGEST_ID} letters.")
        extra.update({name: body[name] for name in ("client_id", "partial_execution_targets")
                      if body.get(name) is not None})
        known = self.store.find(prompt_id)
        if known is not None:
            if known.prompt != asked.prompt:
                raise FarmError(f"another prompt has the prompt_id {prompt_id[:80]!r} already.")
            return prompt_id, known.number
        number = self._numbered(body)
        extra["create_time"] = int(time.time() * 1000)
        first = self._first[prompt_id] = asyncio.get_running_loop().create_future()
        try:
            with self.store.at_once():
                self.store.accept(prompt_id, number, asked.prompt, extra)
                self._line_up(Kept(prompt_id, number, "waiting", asked.prompt, extra, Past(), None))
                self._give_out()
            if any(one.waiting.asked.key == prompt_id for one in self.begun.values()):
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

    def cancel(self, prompt_ids: Iterable[str]) -> list[str]:
        """Take prompts out that wait; return those that did."""
        out = [one for one in prompt_ids if self._queue.discard(one) is not None]
        if out:
            with self.store.at_once():
                self.store.drop(out)
            for one in out:
                self._past.pop(one, None)
            self._tell_status()
        return out

    def clear(self) -> None:
        """Take out every prompt that waits."""
        out = [one.asked.key for one in self._queue.drain()]
        with self.store.at_once():
            self.store.drop(out)
        for one in out:
            self._past.pop(one, None)
        self._tell_status()

    def interrupt(self, prompt_id: str | None) -> list[tuple[Seat, str]]:
        """Return the servers that run this prompt, or any, with its id there, to interrupt it."""
        found = [(self.seats[name], one) for name, one in self.begun.items()
                 if prompt_id in (None, one.waiting.asked.key)]
        for _, one in found:
            one.is_cancelled = True
        return [(seat, one.attempt) for seat, one in found]

    @property
    def remaining(self) -> int:
        """How many prompts wait or run."""
        return len(self._queue) + len(self.begun)

    def there(self) -> list[Seat]:
        """The servers that answer, in the order in which they were named."""
        return [seat for seat in self.seats.values() if seat.state in ("idle", "busy")]

    # ---------------------------------------------------- which server gets which prompt

    def _line_up(self, kept: Kept, resumes_on: str | None = None) -> None:
        """Have a prompt wait; its graph stays on disk until a server gets it."""
        past = kept.past
        asked = Asked(kept.id, kept.id, {}, {}, kind_of(kept.prompt), models_of(kept.prompt))
        self._past[kept.id] = past
        self._queue.add(Waiting(
            asked, set(past.not_on), past.lost, past.errors,
            resumes_on=resumes_on if resumes_on in self.seats else None,
        ), kept.number < 0)

    def _give_out(self) -> None:
        """Small servers choose first, so that the large ones are left what only they can do."""
        idle = [seat for seat in self.seats.values() if seat.state == "idle"]
        if idle and self._queue:
            sizes = Sizes([seat.server for seat in self.seats.values() if seat.was_there],
                          may_come=any(not seat.was_there for seat in self.seats.values()))
            for seat in sorted(idle, key=lambda seat: seat.server.size_mib):
                waiting = self._queue.take(seat.server, sizes)
                if waiting is not None:
                    self._begin(seat, waiting, sizes)
        self._tell_status()

    def _begin(self, seat: Seat, waiting: Waiting, sizes: Sizes) -> None:
        name, server = seat.server.name, seat.server
        kept = self.store.find(waiting.asked.key)
        assert kept is not None, "what waits is kept"
        extra = {**kept.extra, "client_id": CLIENT_ID}
        asked = replace(waiting.asked, prompt=kept.prompt, extra_data=extra)
        need = self.store.needs.of(asked.kind)
        fit = need.fit(server.facts.room_mib, server.size_mib)
        attempt = attempt_id(kept.id, name, self._past[kept.id].ended.get(name, 0))
        left = self.store.abandoned(name)
        order = Order(
            asked, attempt,
            room_mib=need.enough_mib
            if fit == "fits" and waiting.turned_away < TURNED_AWAY else 0.0,
            guard=fit in ("guarded", "too small") and server.facts.has_headroom,
            rescue=self._after_oom == "rescue" or sizes.is_largest(server),
            resumes=waiting.resumes_on == name or attempt in left,
            abandoned=tuple(one for one in left if one != attempt),
        )
        self.store.begins(kept.id, name)
        seat.state, server.models = "busy", asked.models
        client_id = kept.extra.get("client_id")
        self.begun[name] = Begun(waiting, attempt, client_id if isinstance(client_id, str) else "",
                                 kept.number, kept.prompt, kept.extra)
        self._go(self._run(seat, order))

    # ---------------------------------------------------- what came of it

    async def _run(self, seat: Seat, order: Order) -> None:
        outcome = await self._calls.run(seat.server.name, order)
        with self.store.at_once():
            self._take(seat, order, outcome)
            self._give_out()

    def _take(self, seat: Seat, order: Order, outcome: Outcome) -> None:
        begun, before = self.begun.pop(seat.server.name), seat.server.facts
        waiting, name = begun.waiting, seat.server.name
        self._queue.is_over(waiting.asked.kind)
        past = self._past[waiting.asked.key]
        if outcome.ending == "lost":
            self.store.abandon(name, order.prompt_id)
            self._is_away(seat, outcome.text)
        else:
            self.store.forgotten([*order.abandoned, order.prompt_id])
            past.ended[name] = past.ended.get(name, 0) + (outcome.ending != "no room")
            seat.state, seat.server.facts = "idle", outcome.facts or before
            self.store.needs.learn(
                waiting.asked.kind, outcome.ending, outcome.needed_mib, before.room_mib,
                outcome.rescued, before.total_mib)
            self.store.learn(waiting.asked.kind)
        servers = [other.server for other in self.seats.values()]
        decided = verdict(waiting, seat.server, outcome, servers, self.store.needs, self._limits)
        if begun.is_cancelled and decided.what == "again":
            decided = Verdict("failed", waiting, "it was cancelled")
        self._follow(seat, begun, decided, outcome)

    def _follow(self, seat: Seat, begun: Begun, decided: Verdict, outcome: Outcome) -> None:
        waiting = decided.waiting
        key = waiting.asked.key
        if decided.what == "again":
            past = self._past[key]
            past.not_on, past.lost = sorted(waiting.not_on), waiting.lost
            past.errors = waiting.errors
            self.store.waits(key, past)
            self._queue.add(waiting)
            return
        self._past.pop(key, None)
        first = self._first.get(key)
        if first is not None and not first.done():
            if outcome.ending == "refused":
                self.store.drop([key])
                first.set_result(outcome.entry or {"error": outcome.text, "node_errors": {}})
                return
            first.set_result(None)
        entry = outcome.entry if outcome.ending != "refused" else {}
        self._end(seat, begun, entry or _failure(key, decided.text))

    def _end(self, seat: Seat, begun: Begun, entry: Json) -> None:
        """Keep the result, and then tell whose prompt it was."""
        key, status = begun.waiting.asked.key, entry.get("status") or {}
        messages = [[kind, {**data, "prompt_id": key}] for kind, data in status.get("messages", ())]
        targets = (entry.get("prompt") or [None] * 5)[4] or []
        entry = {
            **entry, "outputs": tagged(entry.get("outputs", {}), seat_tag(seat.server.name)),
            "prompt": [begun.number, key, begun.prompt, without_secrets(begun.extra), targets],
            "status": {**status, "messages": messages},
        }
        if self.store.ends(key, seat.server.name, entry):
            last = next((one for one in reversed(messages) if one[0] in ENDINGS), None)
            kind, data = last or ("execution_success", {"prompt_id": key})
            self.clients.tell(begun.client_id, event(kind, data))
            self.clients.tell(begun.client_id,
                              event("executing", {"node": None, "prompt_id": key}))

    def _tell_status(self) -> None:
        if len(self.clients):
            self.clients.tell_all(event("status", self.status()))

    def status(self) -> Json:
        """How much is left to do, as ComfyUI tells it."""
        return {"status": {"exec_info": {"queue_remaining": self.remaining}}}

    def starts(self, server: str) -> None:
        """A server has begun with its prompt: it did not refuse it."""
        first = self._first.get(self.begun[server].waiting.asked.key)
        if first is not None and not first.done():
            first.set_result(None)

    def wake(self, server: str) -> None:
        """A server's prompt has ended."""
        self._calls.wake(server)

    # ---------------------------------------------------- servers

    async def _have(self, seat: Seat) -> None:
        """Have a server, however often it must be asked for."""
        while True:
            seat.state = "starting"
            try:
                facts = await self._calls.start(seat.server.name)
            except ServerFailed as error:
                if not seat.failed_starts:
                    self._says(f"{seat.server.name} is away: {error}")
                seat.failed_starts += 1
                seat.goes(time.monotonic())
                seat.state = "away"
                self._release(seat)
                await asyncio.sleep(seat.again_at - time.monotonic())
            else:
                seat.server.facts = facts
                self.answers[seat.server.name].set()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(
                        self.is_heard[seat.server.name].wait(), HEARD_SECONDS)
                seat.comes(facts)
                self._says(f"{seat.server.name} is there.")
                with self.store.at_once():
                    self._give_out()
                return

    def loses(self, seat: Seat) -> None:
        """The connection to a server broke; where it runs a prompt, that notices itself."""
        self.is_heard[seat.server.name].clear()
        if seat.state == "idle":
            self._is_away(seat, "its connection broke")

    def _is_away(self, seat: Seat, why: str) -> None:
        self._says(f"{seat.server.name} is away: {why}")
        seat.state = "away"
        self.answers[seat.server.name].clear()
        self._release(seat)
        self._go(self._have(seat))

    def _release(self, seat: Seat) -> None:
        """What waited for this server may go elsewhere; it is told to forget it."""
        for waiting in self._queue.all():
            if waiting.resumes_on == seat.server.name:
                waiting.resumes_on = None
                ended = self._past[waiting.asked.key].ended.get(seat.server.name, 0)
                self.store.abandon(
                    seat.server.name, attempt_id(waiting.asked.key, seat.server.name, ended))


ENDINGS = ("execution_success", "execution_error", "execution_interrupted")


def seat_tag(server: str) -> str:
    """Return the folder under which clients see the files of a server."""
    name = server.split("://")[-1]
    return "@" + "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)


def _failure(prompt_id: str, text: str) -> Json:
    """Return the history entry of a prompt of which no server has one."""
    return {"outputs": {}, "meta": {}, "status": {"status_str": "error", "completed": False,
            "messages": [["execution_error", {
                "prompt_id": prompt_id, "node_id": "", "node_type": "", "executed": [],
                "exception_type": "FarmError", "exception_message": text, "traceback": [],
                "current_inputs": {}, "current_outputs": [],
                "timestamp": int(time.time() * 1000)}]]}}

"""The prompts of a door: what a client asks for, what waits, what a server is told.

They are on disk whole, and in mind by what places them.
"""

import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .keys import attempt_id, kind_of, models_of
from .needs import Need
from .placement import Queue, Server, Waiting
from .prompts import asked_for
from .store import Kept, Store
from .words import LARGEST, Asked, FarmError, Json, Order

LONGEST_ID = 200
TURNED_AWAY = 3  # times for want of room; then a prompt is tried all the same
OVERDUE_SECONDS = 60.0  # then a prompt goes before those that suit a server better


class Refused(ValueError):
    """Every server refuses the prompt; `answer` is what the last of them said."""

    def __init__(self, answer: Json) -> None:
        super().__init__("the prompt is refused")
        self.answer = answer


def wish_of(body: Any) -> tuple[Asked, str, Json]:
    """Return a body's prompt, its id and its `extra_data`; FarmError for a bad one."""
    asked = asked_for("the body", body)
    prompt_id, extra = body.get("prompt_id") or str(uuid.uuid4()), dict(asked.extra_data)
    for name, value in (("prompt_id", prompt_id), ("client_id", body.get("client_id") or "")):
        if not isinstance(value, str) or len(value) > LONGEST_ID or not value.isprintable():
            raise FarmError(
                f"{name} is expected to be a text of at most {LONGEST_ID} printable letters.")
    number = body.get("number")
    if isinstance(number, (int, float)) and abs(number) > LARGEST:
        raise FarmError(f"number is expected to be at most {LARGEST:,}.")
    extra.update({name: body[name] for name in ("client_id", "partial_execution_targets")
                  if body.get(name) is not None})
    return asked, prompt_id, {**extra, "create_time": int(time.time() * 1000)}


@dataclass
class Begun:
    """The prompt that a server runs: `attempt` is its id there, `client_id` whose it is."""

    waiting: Waiting
    attempt: str
    client_id: str
    kept: Kept
    last_node: str = ""  # the message that said which node runs
    is_cancelled: bool = False


class Line:
    """What waits, in the queue and in the store."""

    def __init__(self, store: Store) -> None:
        self.queue = Queue(store.needs, OVERDUE_SECONDS)
        self._store = store

    def join(self, kept: Kept, resumes_on: str | None = None) -> None:
        """Have a prompt wait; its graph stays on disk until a server gets it."""
        asked = Asked(kept.id, kept.id, {}, {}, kind_of(kept.prompt), models_of(kept.prompt))
        self.queue.add(Waiting(asked, kept.past, resumes_on=resumes_on), kept.number < 0)

    def again(self, waiting: Waiting) -> None:
        self._store.waits(waiting.asked.key, waiting.past)
        self.queue.add(waiting)

    def cancel(self, prompt_ids: Collection[str] | None) -> list[str]:
        """Take prompts out that wait, or every one; return those that did."""
        keys = {one.asked.key for one in self.queue.all()} if prompt_ids is None else prompt_ids
        out = self.queue.discard(keys)
        with self._store.at_once():
            self._store.drop(out)
        return out

    def release(self, server: str) -> None:
        """What waited for this server may go elsewhere; it is told to forget it."""
        for waiting in self.queue.all():
            if waiting.resumes_on == server:
                waiting.resumes_on = None
                self._store.waits(waiting.asked.key, waiting.past)
                ended = waiting.past.ended.get(server, 0)
                self._store.abandon(server, attempt_id(waiting.asked.key, server, ended))


def order_for(
    waiting: Waiting, server: Server, attempt: str, need: Need, left: Sequence[str],
    rescue: bool, elsewhere_mib: float,
) -> Order:
    """Return the order for an attempt on a server, where attempts may be `left` from before."""
    fit = need.fit(server.facts.room_mib, server.size_mib)
    knows_room = fit == "fits" and waiting.turned_away < TURNED_AWAY
    return Order(
        waiting.asked, attempt, room_mib=need.enough_mib if knows_room else 0.0,
        guard=fit in ("guarded", "too small") and server.facts.has_headroom, rescue=rescue,
        elsewhere_mib=0.0 if need.is_known else elsewhere_mib,
        resumes=waiting.resumes_on == server.name or attempt in left,
        abandoned=tuple(one for one in left if one != attempt),
    )

"""What a client asks of a door by `POST /prompt`, and what a server is told for it."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from .needs import Need
from .placement import Server, Waiting
from .prompts import asked_for
from .words import LARGEST, Asked, FarmError, Json, Order

LONGEST_ID = 200
TURNED_AWAY = 3  # times for want of room; then a prompt is tried all the same


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


def order_for(
    waiting: Waiting, server: Server, attempt: str, need: Need, left: Sequence[str],
    rescue: bool,
) -> Order:
    """Return the order for an attempt on a server, where attempts may be `left` from before."""
    fit = need.fit(server.facts.room_mib, server.size_mib)
    knows_room = fit == "fits" and waiting.turned_away < TURNED_AWAY
    return Order(
        waiting.asked, attempt, room_mib=need.enough_mib if knows_room else 0.0,
        guard=fit in ("guarded", "too small") and server.facts.has_headroom, rescue=rescue,
        resumes=waiting.resumes_on == server.name or attempt in left,
        abandoned=tuple(one for one in left if one != attempt),
    )

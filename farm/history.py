"""A prompt's history entry, as the clients of a door see it."""

import time

from .clients import seat_tag, tagged
from .keys import prompt_id_of
from .store import Kept, without_secrets
from .words import Json, Outcome, Past

# The events that end a prompt, and how it is kept then.
ENDINGS = {"execution_success": "completed", "execution_error": "failed",
           "execution_interrupted": "cancelled"}


def entry_of(kept: Kept, found: Json, server: str, outcome: Outcome, past: Past) -> Json:
    """Return a server's entry under the client's id; `farm` says whose it is and what went before.

    `attempt` there is the prompt's id on that server.
    """
    status = found.get("status") or {}
    messages = [[kind, {**data, "prompt_id": kept.id}]
                for kind, data in status.get("messages", ())]
    targets = (found.get("prompt") or [None] * 5)[4] or []
    return {
        **found, "outputs": tagged(found.get("outputs", {}), seat_tag(server)),
        "prompt": [kept.number, kept.id, kept.prompt, without_secrets(kept.extra), targets],
        "status": {**status, "messages": messages},
        "farm": {"server": server, "attempt": outcome.attempt, "rescued": outcome.rescued,
                 "moved": past.moved},
    }


def ending_of(entry: Json) -> tuple[str, Json]:
    """Return the event that tells how a prompt ended, and its data."""
    status = entry["status"]
    kind = "execution_error" if status.get("status_str") == "error" else "execution_success"
    kind, data = next((one for one in reversed(status["messages"]) if one[0] in ENDINGS),
                      (kind, {"prompt_id": entry["prompt"][1]}))
    return kind, data


def failure(prompt_id: str, text: str) -> Json:
    """Return the entry of a prompt of which no server has one."""
    return {"outputs": {}, "meta": {}, "status": {"status_str": "error", "completed": False,
            "messages": [["execution_error", {
                "prompt_id": prompt_id, "node_id": "", "node_type": "", "executed": [],
                "exception_type": "FarmError", "exception_message": text, "traceback": [],
                "current_inputs": {}, "current_outputs": [],
                "timestamp": int(time.time() * 1000)}]]}}


def rerun_of(entry: Json) -> Json:
    """Return the body of an entry's rerun: guarded, before all others, queued once at most."""
    _, prompt_id, prompt, extra, _ = entry["prompt"]
    return {"prompt": prompt, "prompt_id": prompt_id_of(prompt_id, "rerun", 0), "front": True,
            "extra_data": {**extra, "headroom": {**extra.get("headroom", {}), "guard": True}}}

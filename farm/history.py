"""A prompt as the clients of a door see it: its history entry, and its job in `/api/jobs`."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace

from .clients import seat_tag, tagged
from .errors import strange
from .keys import prompt_id_of
from .store import Kept, Store, without_secrets
from .words import LARGEST, FarmError, Json, Outcome, Past

# The events that end a prompt, and how it is kept then.
ENDINGS = {"execution_success": "completed", "execution_error": "failed",
           "execution_interrupted": "cancelled"}
MEDIA = ("images", "video", "audio", "3d", "text")
ENDED_STATES = frozenset(ENDINGS.values())
# What is kept, and what clients of `/api/jobs` call it.
STATES = {"waiting": "pending", "running": "in_progress", **{one: one for one in ENDED_STATES}}


def final(
    kept: Kept, found: Json, text: str, server: str, outcome: Outcome, past: Past
) -> Json:
    """Return what a prompt ended with: a failure of this `text` where no server has an entry."""
    try:
        entry = entry_of(kept, found or failure(kept.id, text), server, outcome, past)
        job_of(replace(kept, entry=entry))  # clients will ask for it
    except Exception as error:  # noqa: BLE001 - the entry is another program's
        found = failure(kept.id, strange(server, error))
        return entry_of(kept, found, server, outcome, past)
    return entry


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


# ---------------------------------------------------- as newer frontends ask for it


def page_of(query: Mapping[str, str], store: Store) -> Json:
    """Return the jobs that a query asks for; FarmError for one that nobody understands."""
    words = {word for word in query.get("status", "").lower().split(",") if word}
    if not words <= set(STATES.values()):
        raise FarmError(f"status is expected to be some of {', '.join(sorted(STATES.values()))}.")
    limit = number_of(query, "limit", 1) if "limit" in query else None
    if limit is not None and limit <= 0:
        raise FarmError("limit is expected to be 1 or more.")
    offset = max(0, number_of(query, "offset", 0))
    found, total = store.page(
        [state for state, word in STATES.items() if word in words or not words],
        query.get("sort_order") != "asc", limit or LARGEST, offset)
    return {"jobs": [job_of(kept) for kept in found], "pagination": {
        "offset": offset, "limit": limit, "total": total,
        "has_more": offset + len(found) < total}}


def job_of(kept: Kept, is_whole: bool = False) -> Json:
    """Return the job of a prompt; of one that has ended with outputs and workflow if `is_whole`."""
    entry, info = kept.entry or {}, kept.extra.get("extra_pnginfo")
    workflow = info.get("workflow") if isinstance(info, dict) else None
    outputs = entry.get("outputs", {})
    shown = [
        {**item, "nodeId": node_id, "mediaType": media}
        for node_id, found in outputs.items() for media, items in found.items()
        if isinstance(items, list) for item in items if isinstance(item, dict)
    ]
    seen = [item for item in shown if item["mediaType"] in MEDIA]
    saved = [item for item in seen if item.get("type") == "output"]
    job = {
        "id": kept.id, "priority": kept.number, "status": STATES[kept.state],
        "create_time": kept.extra["create_time"],
        "workflow_id": workflow.get("id") if isinstance(workflow, dict) else None,
        "outputs_count": len(shown), "previewable_outputs_count": len(seen),
        "preview_output": next(iter(saved or seen), None),
    }
    if entry:
        messages = dict(entry["status"]["messages"])
        job |= {"execution_start_time": messages.get("execution_start", {}).get("timestamp"),
                "execution_end_time": ending_of(entry)[1].get("timestamp"),
                "execution_error": messages.get("execution_error")}
    if entry and is_whole:
        job |= {"outputs": outputs, "execution_status": entry["status"],
                "workflow": {"prompt": kept.prompt, "extra_data": kept.extra}}
    return {name: value for name, value in job.items() if value is not None}


def number_of(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a whole number of a query; FarmError for what is none, or more than SQLite takes."""
    with contextlib.suppress(ValueError):
        if abs(found := int(query.get(name, default))) <= LARGEST:
            return found
    raise FarmError(f"{name} is expected to be a whole number of at most {LARGEST:,}.")

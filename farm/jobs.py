"""Prompts as newer frontends ask for them: `/api/jobs`, by state, a page at a time."""

import contextlib
from collections.abc import Mapping

from .history import ENDINGS, ending_of
from .store import Kept, Store
from .words import LARGEST, FarmError, Json

MEDIA = ("images", "video", "audio", "3d", "text")
ENDED_STATES = frozenset(ENDINGS.values())
# What is kept, and what clients call it.
STATES = {"waiting": "pending", "running": "in_progress", **{one: one for one in ENDED_STATES}}


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

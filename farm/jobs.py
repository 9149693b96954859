"""Prompts as newer frontends ask for them: `/api/jobs`, by state, a page at a time."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .words import LARGEST, FarmError, Json

MEDIA = ("images", "video", "audio", "3d", "text")
ENDED = {"execution_success": "completed", "execution_error": "failed",
         "execution_interrupted": "cancelled"}
ENDED_STATES = frozenset(ENDED.values())
OPEN_STATES = frozenset({"pending", "in_progress"})
STATES = OPEN_STATES | ENDED_STATES


def open_job(prompt_id: str, number: float, extra: Json, runs: bool) -> Json:
    """Return the job of a prompt that waits or runs."""
    return {"id": prompt_id, "status": "in_progress" if runs else "pending", "priority": number,
            "outputs_count": 0, "previewable_outputs_count": 0, **_about(extra)}


def ended_job(prompt_id: str, entry: Json, is_whole: bool = False) -> Json:
    """Return the job of a history entry, with its outputs and its workflow if `is_whole`."""
    number, _, prompt, extra, _ = entry["prompt"]
    status = entry.get("status") or {}
    messages = {kind: data for kind, data in status.get("messages", ())}
    ending = next((kind for kind in ENDED if kind in messages), None)
    outputs = entry.get("outputs", {})
    shown = [
        {**item, "nodeId": node_id, "mediaType": media}
        for node_id, found in outputs.items() for media, items in found.items()
        if isinstance(items, list) for item in items if isinstance(item, dict)
    ]
    seen = [item for item in shown if item["mediaType"] in MEDIA]
    saved = [item for item in seen if item.get("type") == "output"]
    job = {
        "id": prompt_id, "priority": number, "outputs_count": len(shown),
        "status": ENDED[ending] if ending else
        "failed" if status.get("status_str") == "error" else "completed",
        "previewable_outputs_count": len(seen), "preview_output": next(iter(saved or seen), None),
        "execution_start_time": messages.get("execution_start", {}).get("timestamp"),
        "execution_end_time": messages.get(ending, {}).get("timestamp"),
        "execution_error": messages.get("execution_error"), **_about(extra),
    }
    if is_whole:
        job |= {"outputs": outputs, "execution_status": status,
                "workflow": {"prompt": prompt, "extra_data": extra}}
    return {name: value for name, value in job.items() if value is not None}


@dataclass(frozen=True)
class Page:
    """Which jobs a query asks for; FarmError for one that nobody understands."""

    states: frozenset[str]
    limit: int | None
    offset: int
    workflow: str
    by_seconds: bool
    newest_first: bool

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Page":
        states = frozenset(word for word in query.get("status", "").lower().split(",") if word)
        if not states <= set(STATES):
            raise FarmError(f"status is expected to be some of {', '.join(sorted(STATES))}.")
        limit = number_of(query, "limit", 1) if "limit" in query else None
        if limit is not None and limit <= 0:
            raise FarmError("limit is expected to be 1 or more.")
        return cls(states or STATES, limit, max(0, number_of(query, "offset", 0)),
                   query.get("workflow_id", ""), query.get("sort_by") == "execution_duration",
                   query.get("sort_order", "desc") == "desc")

    def most(self, of: frozenset[str]) -> int | None:
        """How many of the newest of these states this page can be made of; None: of all."""
        is_plain = self.newest_first and not self.by_seconds and not self.workflow
        return self.offset + self.limit if self.limit and is_plain and of <= self.states else None

    def shown(self, jobs: Iterable[Json], not_read: int = 0) -> Json:
        """Return the page; `not_read` jobs are older than all of these."""
        found = [job for job in jobs if job["status"] in self.states
                 and (not self.workflow or job.get("workflow_id") == self.workflow)]
        found.sort(key=_seconds if self.by_seconds else _created, reverse=self.newest_first)
        total = len(found) + not_read
        end = total if self.limit is None else self.offset + self.limit
        return {"jobs": found[self.offset:end], "pagination": {
            "offset": self.offset, "limit": self.limit, "total": total, "has_more": end < total}}


def number_of(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a whole number of a query; FarmError for what is none, or more than SQLite takes."""
    with contextlib.suppress(ValueError):
        if abs(found := int(query.get(name, default))) <= LARGEST:
            return found
    raise FarmError(f"{name} is expected to be a whole number of at most {LARGEST:,}.")


def _about(extra: Json) -> Json:
    info = extra.get("extra_pnginfo")
    workflow = info.get("workflow") if isinstance(info, dict) else None
    about = {"create_time": extra.get("create_time"),
             "workflow_id": workflow.get("id") if isinstance(workflow, dict) else None}
    return {name: value for name, value in about.items() if value is not None}


def _created(job: Json) -> float:
    return float(job.get("create_time", 0))


def _seconds(job: Json) -> float:
    start, end = job.get("execution_start_time"), job.get("execution_end_time")
    return float(end - start) if start and end else 0.0

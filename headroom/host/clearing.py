"""Which requests to ComfyUI empty its queue."""

from collections.abc import Collection
from typing import Any

QUEUE, JOBS = "/queue", "/jobs/cancel"


def empties_queue(path: str, body: Any, waiting: Collection[str]) -> bool:
    """Return whether a POST of `body` to `path` leaves nothing of the prompts that wait.

    Older ComfyUIs are told to clear the queue; newer ones are also given the ids of all jobs in it.
    One job that is cancelled by its own id (`/jobs/{id}/cancel`) empties nothing but its place.
    """
    path = path.removeprefix("/api")
    if not isinstance(body, dict) or path not in (QUEUE, JOBS):
        return False
    ids = body.get("job_ids")
    if path == JOBS:
        return isinstance(ids, list) and bool(waiting) and all(one in ids for one in waiting)
    return bool(body.get("clear"))

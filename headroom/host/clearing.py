"""Which requests to ComfyUI empty its queue."""

from collections.abc import Collection
from typing import Any

QUEUE, JOBS = "/queue", "/jobs/cancel"


def empties_queue(path: str, body: Any, waiting: Collection[str]) -> bool:
    """Return whether a POST of `body` to `path` removes all prompts that wait.

    Older ComfyUIs get a command to clear the queue; newer ones may also get the ids of all its
    jobs. A job that is cancelled by its own id (`/jobs/{id}/cancel`) leaves the others.
    """
    path = path.removeprefix("/api")
    if not isinstance(body, dict) or path not in (QUEUE, JOBS):
        return False
    ids = body.get("job_ids")
    if path == JOBS:
        return isinstance(ids, list) and bool(waiting) and all(one in ids for one in waiting)
    return bool(body.get("clear"))

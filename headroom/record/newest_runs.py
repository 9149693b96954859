"""The records of the last prompts."""

from ..base.said import said
from .run import Run

MAX_RUNS = 50
NO_RECORD = said(
    "No record of this prompt: it has not begun yet, or is older than the last runs that are kept."
)


class NewestRuns:
    """At most MAX_RUNS records by the id of their prompt; the oldest are dropped first."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}  # oldest first

    def keep(self, run: Run) -> None:
        self._runs.pop(run.prompt_id, None)  # a second run of the same id replaces the first
        self._runs[run.prompt_id] = run
        while len(self._runs) > MAX_RUNS:
            del self._runs[next(iter(self._runs))]

    def get(self, prompt_id: str) -> Run | None:
        return self._runs.get(prompt_id)

    def newest(self, count: int = MAX_RUNS) -> list[Run]:
        """Return at most `count` records, newest first."""
        return list(reversed(self._runs.values()))[:count]

"""The last runs, kept in memory and bounded."""

from collections import OrderedDict

from .record.run import Run

MAX_RUNS = 50


class RunStore:
    """The newest `limit` runs by prompt id; an older one makes room for a new one."""

    def __init__(self, limit: int = MAX_RUNS) -> None:
        self._limit = limit
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def add(self, run: Run) -> None:
        """Keep `run`; a prompt id that comes again replaces its older run."""
        self._runs.pop(run.prompt_id, None)
        self._runs[run.prompt_id] = run
        while len(self._runs) > self._limit:
            self._runs.popitem(last=False)

    def get(self, prompt_id: str) -> Run | None:
        return self._runs.get(prompt_id)

    def newest(self, count: int = MAX_RUNS) -> list[Run]:
        """Return at most `count` runs, newest first."""
        return list(reversed(self._runs.values()))[:count]

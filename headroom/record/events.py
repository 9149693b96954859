"""What happened in the prompts, in order, until somebody has the time to enter it into records."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Protocol

from ..host.types import Outcome
from .memory import Reading
from .run import Run

MAX_EVENTS = 25_000
MAX_RUNS = 50

# What to do with the run, for which node, in which prompt, when, and memory as it was last read.
Enter = Callable[[Run, str, Reading, float], None]
Event = tuple[Enter, str, str, tuple[float, Reading]]


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


class Prompt(Protocol):
    """The nodes that a prompt has."""

    def has(self, node_id: str) -> bool: ...


class Events:
    """A queue that the executor only appends to, which needs no lock; reading it needs one.

    A run stands in it before what happened in that run.
    """

    def __init__(self, run_is_over: Callable[[Run], None] = lambda _: None) -> None:
        self._queue: deque[Run | Event] = deque()
        self._entering: Run | None = None  # the run that the next event belongs to
        self._run_is_over = run_is_over
        self.append: Callable[[Event], None] = self._queue.append

    def begin(self, run: Run) -> None:
        self._queue.append(run)

    def sample(self, run: Run, reading: Reading) -> None:
        """Memory was read."""
        self._happened(_samples, run, reading)

    def end(self, run: Run, reading: Reading) -> None:
        """The prompt has left the executor."""
        self._happened(_ends, run, reading)

    def settle(
        self, run: Run, reading: Reading, outcome: Outcome | None, prompt: Prompt | None
    ) -> None:
        """Nothing more happens in this run; an outcome that nobody tells is guessed."""

        def settles(run: Run, *_: Any) -> None:
            run.settle(_known(outcome or _guess(run), prompt))
            self._run_is_over(run)

        self._happened(settles, run, reading)

    def _happened(self, enter: Enter, run: Run, reading: Reading) -> None:
        self.append((enter, "", run.prompt_id, (reading.at, reading)))

    @property
    def are_many(self) -> bool:
        return len(self._queue) > MAX_EVENTS

    def enter(self) -> None:
        """Enter everything into the records."""
        while self._queue:
            event = self._queue.popleft()
            if isinstance(event, Run):
                self._entering = event
                continue
            enter, node_id, prompt_id, (at, reading) = event
            if self._entering is not None and prompt_id == self._entering.prompt_id:
                enter(self._entering, node_id, reading, at)


def _samples(run: Run, _node_id: str, reading: Reading, _at: float) -> None:
    run.observe(reading)


def _ends(run: Run, _node_id: str, reading: Reading, _at: float) -> None:
    run.end(reading)


def _known(told: Outcome, prompt: Prompt | None) -> Outcome:
    """Leave out what is not in the prompt of what came from the cache."""
    cached = [node for node in told.cached_node_ids if prompt is not None and prompt.has(node)]
    return Outcome(told.status, told.failed_node_id, tuple(cached))


def _guess(run: Run) -> Outcome:
    """Tell the outcome from the record: the history that would tell was cleared."""
    unfinished = any(
        record.status not in ("done", "cached") for record in run.nodes.records.values()
    )
    return Outcome("error" if unfinished else "success")

"""What happened in the prompts, in order, until somebody has the time to enter it into records."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

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

    def __init__(self) -> None:
        self._queue: deque[Run | Event] = deque()
        self._entering: Run | None = None  # the run that the next event belongs to
        self.append: Callable[[Event], None] = self._queue.append
        self.on_settled: Callable[[Run], None] | None = None

    def begin(self, run: Run) -> None:
        self._queue.append(run)

    def sample(self, run: Run, reading: Reading) -> None:
        """Memory was read."""
        self.append((_samples, "", run.prompt_id, (reading.at, reading)))

    def end(self, run: Run, reading: Reading) -> None:
        """The prompt has left the executor."""
        self.append((_ends, "", run.prompt_id, (reading.at, reading)))

    def settle(
        self, run: Run, reading: Reading, outcome: Outcome | None, prompt: Prompt | None
    ) -> None:
        """Nothing more happens in this run; an outcome that nobody tells is guessed."""
        self.append((_settles(outcome, prompt), "", run.prompt_id, (reading.at, reading)))
        self.append((self._tell_settled, "", run.prompt_id, (reading.at, reading)))

    @property
    def are_many(self) -> bool:
        return len(self._queue) > MAX_EVENTS

    def enter(self, store: RunStore) -> None:
        """Enter everything into the records; what nobody can ask for any more is skipped.

        `on_settled` is told of every run that is over.
        """
        while self._queue:
            event = self._queue.popleft()
            if isinstance(event, Run):
                is_wanted = self.on_settled is not None or store.get(event.prompt_id) is event
                self._entering = event if is_wanted else None
                continue
            enter, node_id, prompt_id, (at, reading) = event
            if self._entering is not None and prompt_id == self._entering.prompt_id:
                enter(self._entering, node_id, reading, at)

    def _tell_settled(self, run: Run, _node_id: str, _reading: Reading, _at: float) -> None:
        if self.on_settled is not None:
            self.on_settled(run)


def _samples(run: Run, _node_id: str, reading: Reading, _at: float) -> None:
    run.observe(reading)


def _ends(run: Run, _node_id: str, reading: Reading, _at: float) -> None:
    run.end(reading)


def _settles(outcome: Outcome | None, prompt: Prompt | None) -> Enter:
    def settle(run: Run, _node_id: str, _reading: Reading, _at: float) -> None:
        told = outcome or _guess(run)
        cached = [n for n in told.cached_node_ids if prompt is not None and prompt.has(n)]
        run.settle(Outcome(told.status, told.failed_node_id, tuple(cached)))

    return settle


def _guess(run: Run) -> Outcome:
    """Tell the outcome from the record: the history that would tell was cleared."""
    unfinished = any(
        record.status not in ("done", "cached") for record in run.nodes.records.values()
    )
    return Outcome("error" if unfinished else "success")

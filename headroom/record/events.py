"""What happened in the prompts, in order, until there is time to write it into records."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Any

from ..host.types import Outcome
from .memory import Reading
from .nodes import GraphView
from .run import Run

MAX_EVENTS = 25_000

# What to do with the run, for which node, in which prompt, when, and the last reading of memory.
Enter = Callable[[Run, str, Reading, float], None]
Event = tuple[Enter, str, str, Reading, float]


class Events:
    """A queue to which the executor only appends. A run is in it before its events.

    `reading` is locked while memory is read and the reading is appended. Each reading at a node
    resets torch's peaks. If it came into the queue after a later one, its peak would belong to no
    node.
    """

    def __init__(self, run_is_over: Callable[[Run], None] = lambda _: None) -> None:
        self.reading = Lock()
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
        self, run: Run, reading: Reading, outcome: Outcome | None, graph: GraphView | None
    ) -> None:
        """Nothing more happens in this run; where nobody tells its outcome, it is inferred."""

        def settles(run: Run, *_: Any) -> None:
            run.settle(_known(outcome or _guess(run), graph))
            self._run_is_over(run)

        self._happened(settles, run, reading)

    def _happened(self, enter: Enter, run: Run, reading: Reading) -> None:
        self.append((enter, "", run.prompt_id, reading, reading.at))

    @property
    def are_many(self) -> bool:
        return len(self._queue) > MAX_EVENTS

    def enter(self) -> None:
        """Write everything into the records."""
        while self._queue:
            event = self._queue.popleft()
            if isinstance(event, Run):
                self._entering = event
                continue
            enter, node_id, prompt_id, reading, at = event
            if self._entering is not None and prompt_id == self._entering.prompt_id:
                enter(self._entering, node_id, reading, at)


def _samples(run: Run, _node_id: str, reading: Reading, _at: float) -> None:
    run.observe(reading)


def _ends(run: Run, _node_id: str, reading: Reading, _at: float) -> None:
    run.end(reading)


def _known(told: Outcome, graph: GraphView | None) -> Outcome:
    """Leave out the cached nodes that are not in the prompt."""
    cached = [node for node in told.cached_node_ids if graph is not None and graph.has(node)]
    return replace(told, cached_node_ids=tuple(cached))


def _guess(run: Run) -> Outcome:
    """Return the outcome as the record shows it: the history with the outcome was cleared."""
    unfinished = any(
        record.status not in ("done", "cached") for record in run.nodes.records.values()
    )
    return Outcome("error" if unfinished else "success")

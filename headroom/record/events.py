"""What happened in the prompts, in order, until there is time to write it into records."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Any

from ..host.types import Outcome
from .nodes import GraphView
from .run import Run

MAX_EVENTS = 25_000

# The prompt, what writes into its record, and the arguments of that: made at each node.
Event = tuple[Any, ...]


class Events:
    """A queue to which the executor only appends. A run is in it before its events.

    `reading` is locked while memory is read and the reading is appended. Each reading at a node
    resets torch's peaks. If it came into the queue after a later one, its peak would belong to no
    node.
    """

    def __init__(self, run_is_over: Callable[[Run], None]) -> None:
        self.reading = Lock()
        self._queue: deque[Run | Event] = deque()
        self._entering: Run | None = None  # the run that the next event belongs to
        self._run_is_over = run_is_over
        self.append: Callable[[Event], None] = self._queue.append

    def begin(self, run: Run) -> None:
        self._queue.append(run)

    def settle(self, run: Run, outcome: Outcome | None, graph: GraphView | None) -> None:
        """Nothing more happens in this run; where nobody tells its outcome, it is inferred."""

        def settles(run: Run) -> None:
            run.settle(_known(outcome or _guess(run), graph))
            self._run_is_over(run)

        self.append((run.prompt_id, settles))

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
            prompt_id, write, *arguments = event
            if self._entering is not None and prompt_id == self._entering.prompt_id:
                write(self._entering, *arguments)


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

"""Record every prompt: its nodes as ComfyUI announces them, and memory by a thread of our own."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..host.types import NodeLabel, Outcome
from ..measure.journal import EmbeddingReads, Entry, OomAttempt, listen
from .memory import Reading
from .newest import MOST, Newest
from .nodes import NodeTable
from .probe import Probe
from .progress import Progress
from .run import Run
from .run_json import recovery_json, run_json
from .ticker import Ticker

SETTLE_SECONDS = 5.0
ASK_SECONDS = 1.0
MAX_EVENTS = 25_000

Seen = TypeVar("Seen")
Beginning = tuple[tuple[str, ...], Reading, float]  # devices, memory, seconds since the epoch


@dataclass(eq=False)
class Recorder:
    """Follows the executor and our nodes, and keeps the records of the last runs.

    Between two nodes the executor waits for one reading of memory at most, and appends to a queue.
    The queue is read when nothing runs, or when somebody asks for a record.
    """

    probe: Probe
    outcome_of: Callable[[str], Outcome | None]  # by ComfyUI's history; None: not known yet
    announce: Callable[[dict[str, Any]], None] = lambda _: None  # an out-of-memory error, its end
    before_prompt: Callable[[], None] = lambda: None  # may delay it
    before_node: Callable[[str, str], None] = lambda *_: None  # prompt and node; may delay it
    prompt_is_over: Callable[[str], None] = lambda _: None  # its record is closed; in our thread
    run_is_over: Callable[[Run], None] = lambda _: None  # everything is in the record; quick

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._runs: Newest[str, Run] = Newest()
        # What happened in which run, in order: the method that writes it, and its arguments.
        self._events: deque[tuple[Any, ...]] = deque()
        # Locked while memory is read and the reading is appended. Each reading at a node resets
        # torch's peaks: if it came into the queue after a later one, its peak would be lost.
        self._reading = threading.Lock()
        self._progress = Progress()
        self.node_progresses = self._progress.moves
        self.node_starts = self._teller(Run.node_starts, begins=True)
        self.node_finishes = self._teller(Run.node_finishes)
        self._run: Run | None = None  # in the executor, or just out of it
        self._left: Reading | None = None
        self._began: Beginning | None = None
        self._asked_outcome = 0.0
        self._ticker = Ticker(self._look)
        self._closed: list[str] = []  # the prompts whose end is to be announced

    def start(self) -> None:
        """Follow our nodes from now on, and start the thread that reads memory in a prompt."""
        listen(self._note)
        self._ticker.start()

    # ---------------------------------------------------- called by the executor, in its thread

    def prompt_resets(self) -> None:
        """A prompt is about to begin: it waits here for an action requested over HTTP."""
        self.before_prompt()
        with self._lock:
            self._finish()
            self._began = self._begin()

    def prompt_begins(
        self, prompt_id: str, describe: Callable[[str], NodeLabel], running: list[str]
    ) -> None:
        """The prompt's nodes are known. `running`: those that had begun before."""
        with self._lock:
            self._finish()
            devices, began, started_at = self._began or self._begin()
            self._began = None
            self._asked_outcome = began.at
            self._progress.moves()
            self._run = Run(prompt_id, devices, began, started_at, NodeTable(describe))
            self._runs[prompt_id] = self._run
            for node_id in running:
                self._events.append((self._run, Run.node_starts, node_id, began))
        self._ticker.wake()

    def _begin(self) -> Beginning:
        devices, (_, began) = self.probe.begin_run(), self.probe.at_node()
        return devices, began, time.time() - (time.perf_counter() - began.at)

    def _teller(
        self, enter: Callable[..., None], begins: bool = False
    ) -> Callable[[str, Any, str], None]:
        """Return the function that the executor calls after an event of a node."""
        probe, append, clock = self.probe, self._events.append, time.perf_counter
        progress, before_node = self._progress, self.before_node

        def told(node_id: str, _state: Any, prompt_id: str) -> None:
            if begins:
                before_node(prompt_id, node_id)
            progress.at = at = clock()
            run = self._run
            if run is None or run.prompt_id != prompt_id:
                return
            memory = probe.in_crowd(at)
            if memory is not None:  # nothing is read: it needs no lock, which takes as long again
                append((run, enter, node_id, memory, at))
                return
            with self._reading:
                at, memory = probe.at_node(begins)
                append((run, enter, node_id, memory, at))

        return told

    def prompt_leaves(self) -> None:
        """The prompt has left the executor, however it ended."""
        with self._lock:
            if self._run is not None and self._left is None:
                self._end(self._run)

    # ---------------------------------------------------- called for HTTP and by the report node

    def catch_up(self) -> None:
        """Write all that happened into the records."""
        with self._lock:
            self._settle()
            self._enter()

    def _enter(self) -> None:
        while self._events:
            run, write, *arguments = self._events.popleft()
            write(run, *arguments)

    def runs(self, count: int = MOST, with_nodes: bool = True) -> list[dict[str, Any]]:
        """Return at most `count` records without samples, newest first."""
        with self._lock:
            self.catch_up()
            newest = list(reversed(self._runs.values()))[:count]
            now = time.perf_counter()
            return [run_json(run, now, with_nodes=with_nodes) for run in newest]

    def run(self, prompt_id: str) -> dict[str, Any] | None:
        """Return one record with its samples; None if the prompt is not, or no longer, known."""
        return self.look(prompt_id, self._whole)

    def _whole(self, run: Run) -> dict[str, Any]:
        if run is self._run and self._left is None:
            self._read(run, self.probe.measured)
            self._enter()
        return run_json(run, time.perf_counter(), with_samples=True)

    def look(self, prompt_id: str, read: Callable[[Run], Seen]) -> Seen | None:
        """Return `read(record)`; None if the prompt is not, or no longer, known."""
        with self._lock:
            self.catch_up()
            run = self._runs.get(prompt_id)
            return None if run is None else read(run)

    def without_progress(self) -> tuple[float, NodeLabel | None] | None:
        """Return since how many seconds the running prompt makes no progress, and in which node."""
        with self._lock:
            run = self._run
            if run is None or self._left is not None:
                return None
            self._enter()
            return self._progress.stands(run)

    def newest_ids(self) -> list[str]:
        """Return the prompts of all records, newest first."""
        with self._lock:
            return list(reversed(self._runs))

    # ---------------------------------------------------- our nodes

    def _note(self, entry: Entry) -> None:
        with self._lock:
            run = self._run
            if run is None or entry.prompt_id != run.prompt_id or isinstance(entry, EmbeddingReads):
                return
            run.note(time.perf_counter(), entry)
            news = None
            if isinstance(entry, OomAttempt) and entry.is_news:
                self._enter()
                news = recovery_json(run, entry)
        if news is not None:
            self.announce(news)

    # ---------------------------------------------------- the thread

    def _look(self) -> None:
        self._sample()
        with self._lock:
            closed, self._closed = self._closed, []
        for prompt_id in closed:
            self.prompt_is_over(prompt_id)

    def _sample(self) -> None:
        with self._lock:
            if self._run is None:
                self._enter()
                self._ticker.rest()
                return
            if self._left is None:
                self._read(self._run, self.probe.beside_node)
            if len(self._events) > MAX_EVENTS:
                self._enter()
            now = time.perf_counter()  # ComfyUI may not announce the end of a prompt: it is asked
            if self._left is not None or now - self._asked_outcome > ASK_SECONDS:
                self._asked_outcome = now
                self._settle()

    def _read(self, run: Run, measure: Callable[[], Reading]) -> None:
        with self._reading:
            self._events.append((run, Run.observe, measure()))

    # ---------------------------------------------------- the end of a run

    def _settle(self) -> None:
        """Close the record of a run that has left the executor, once ComfyUI knows its outcome."""
        run, left = self._run, self._left
        if run is None:
            return
        outcome = self.outcome_of(run.prompt_id)
        is_overdue = left is not None and time.perf_counter() - left.at > SETTLE_SECONDS
        if outcome is not None or is_overdue:
            self._close(run, outcome)

    def _finish(self) -> None:
        """A new prompt begins, so the one before is over even if nobody announced its end."""
        if self._run is not None:
            self._close(self._run, self.outcome_of(self._run.prompt_id))

    def _close(self, run: Run, outcome: Outcome | None) -> None:
        run.drawn = self._progress.drawn(run.prompt_id)
        if self._left is None:
            self._end(run)
        self._events.append((run, self._settled, outcome))
        self._closed.append(run.prompt_id)
        self._run = self._left = None

    def _settled(self, run: Run, told: Outcome | None) -> None:
        """Nothing more happens in this run."""
        run.settle(told or run.guessed_outcome())
        self.run_is_over(run)

    def _end(self, run: Run) -> None:
        with self._reading:
            self._left = self.probe.measured()
            self._events.append((run, Run.end, self._left))

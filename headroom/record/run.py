"""One prompt's record: its nodes, memory over time, out-of-memory attempts and our actions."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..base.error_table import MAX_TEXT
from ..host.types import Outcome, Previews, RunStatus
from ..measure.journal import Entry, OomAttempt
from .memory import Peaks, Reading, between, larger, now, reached
from .nodes import NodeTable

MAX_POINTS = 1000
FIRST_STEP_SECONDS = 0.002
MAX_ENTRIES = 500
Drawn = tuple[int, int]  # width and height of a preview


class Sample(NamedTuple):
    """A point of a line over time: RAM, and used VRAM on each device of the run."""

    at: float
    rss_bytes: int | None
    vram_bytes: tuple[int | None, ...] = ()


class Samples:
    """Memory over time in at most `max_points` points: in a longer run each covers more time.

    A point has the largest figures of its time.
    """

    def __init__(self, max_points: int = MAX_POINTS, step: float = FIRST_STEP_SECONDS) -> None:
        self._max_points = max_points
        self._step = step
        self.points: list[Sample] = []

    def add(self, sample: Sample) -> None:
        """Add one point; it costs a comparison, and sometimes halves the number of points."""
        if self.points and sample.at - self.points[-1].at < self._step:
            self.points[-1] = _joined(self.points[-1], sample)
            return
        self.points.append(sample)
        if len(self.points) > self._max_points:
            self._halve()

    def _halve(self) -> None:
        self._step *= 2
        old, self.points = self.points, []
        for sample in old:
            self.add(sample)


def _at(reading: Reading, at: float | None) -> Reading:
    return reading if at is None or at == reading.at else reading._replace(at=at)


def _joined(earlier: Sample, later: Sample) -> Sample:
    """Return the earlier moment with the larger value of each figure."""
    vram = map(_most, earlier.vram_bytes, later.vram_bytes)
    return Sample(earlier.at, _most(earlier.rss_bytes, later.rss_bytes), tuple(vram))


def _most(one: int | None, other: int | None) -> int | None:
    return max((amount for amount in (one, other) if amount is not None), default=None)


class RamLow(NamedTuple):
    """The least RAM that was left in a run, and of how much."""

    least_left_bytes: int
    total_bytes: int


class NodeError(NamedTuple):
    """What a node raised: the name of the class and the text."""

    node_id: str | None
    kind: str
    text: str


@dataclass
class Run:
    """The record of one prompt. Not thread-safe: the recorder has the lock.

    `devices`: all that models may use, in the order of each reading; none on a CPU server.
    """

    prompt_id: str
    devices: tuple[str, ...]
    began: Reading
    started_at: float
    nodes: NodeTable
    status: RunStatus = "running"
    ended: Reading | None = None
    samples: Samples = field(default_factory=Samples)
    peaks: Peaks = ()
    peak_rss_bytes: int | None = None
    entries: list[tuple[float, Entry]] = field(default_factory=list)
    error: NodeError | None = None
    previews: Previews | None = None
    drawn: dict[str, Drawn] = field(default_factory=dict)  # by node: the largest preview it drew
    foreign: list[dict[str, object]] = field(default_factory=list)  # what packs kept after the run
    ram_low: RamLow | None = None  # if RAM nearly ran out
    ram_held: dict[str, Any] | None = None  # who held RAM after the run, if that was looked up

    def __post_init__(self) -> None:
        self._last = self.began
        self.swapped_before: int | None = None  # in the first reading that tells
        self.totals = [use.total_bytes for use in self.began.devices]
        self.nodes.observe((), self.began.at)
        self._add(self.began, now(self.began), [use.used_bytes for use in self.began.devices])

    def observe(self, reading: Reading) -> None:
        """Add one reading of memory, and what it shows about the time before it.

        A reading that serves for several events counts once. A reading for a run on other devices
        does not belong to this run.
        """
        last = self._last
        if reading.at <= last.at or len(reading.devices) != len(self.devices):
            return
        self.nodes.strained(reading.strain)
        if self.swapped_before is None and reading.strain is not None:
            self.swapped_before = reading.strain.swapped_bytes
        peaks = between(last, reading)
        self.nodes.observe(peaks, reading.at)
        self._last = reading
        self._add(reading, peaks, list(map(reached, last.devices, reading.devices)))

    def _add(self, reading: Reading, peaks: Peaks, vram: list[int | None]) -> None:
        self.totals = list(map(_most, self.totals, [use.total_bytes for use in reading.devices]))
        self.peak_rss_bytes = _most(self.peak_rss_bytes, reading.rss_bytes)
        self.samples.add(Sample(reading.at, reading.rss_bytes, tuple(vram)))
        self.peaks = larger(self.peaks, peaks)

    def node_starts(self, node_id: str, reading: Reading, at: float | None = None) -> None:
        """ComfyUI started the node, at this time if memory was read before it."""
        self.observe(reading)
        self.nodes.started(node_id, _at(reading, at))

    def node_finishes(self, node_id: str, reading: Reading, at: float | None = None) -> None:
        """The node's outputs were there, at this time if memory was read before it."""
        self.observe(reading)
        self.nodes.finished(node_id, _at(reading, at))

    def note(self, at: float, entry: Entry) -> None:
        """Add an event; the oldest are dropped when there are too many.

        An out-of-memory attempt is added when memory runs out; it gets its outcome later.
        """
        if isinstance(entry, OomAttempt):
            if any(known is entry for _, known in self.entries):
                return
            at = entry.at
        self.entries.append((at, entry))
        del self.entries[:-MAX_ENTRIES]

    def after(self, foreign: list[dict[str, object]], previews: Previews | None) -> None:
        """The run is over: set what packs keep, and how its previews were drawn."""
        self.foreign.extend(foreign)
        self.previews = previews

    def held_then(self, held: dict[str, Any] | None, low: RamLow | None = None) -> None:
        """The run is over: set who holds RAM, and how little was left if it nearly ran out."""
        self.ram_low = low or self.ram_low
        self.ram_held = self.ram_held or held

    def end(self, reading: Reading) -> None:
        """The prompt has left the executor; its outcome is known a moment later."""
        self.observe(reading)
        self.ended = reading
        self.nodes.run_ended(reading)

    def settle(self, outcome: Outcome) -> None:
        """ComfyUI has told how the prompt ended."""
        self.status = outcome.status
        if outcome.error is not None:
            kind, text = outcome.error
            self.error = NodeError(outcome.failed_node_id, kind, text[:MAX_TEXT])
        interrupted = outcome.status == "interrupted"
        self.nodes.settle(outcome.failed_node_id, outcome.cached_node_ids, interrupted)

    def guessed_outcome(self) -> Outcome:
        """Return the outcome that the record suggests: ComfyUI's history of it was cleared."""
        ended = all(one.status in ("done", "cached") for one in self.nodes.records.values())
        return Outcome("success" if ended else "error")

    @property
    def fullest(self) -> int:
        """The number of the device that was closest to full; 0 if that is not known."""

        def fullness(index: int) -> tuple[float, int]:
            peak = self.peaks[index]
            used = peak.at_least if peak is not None else 0
            return used / (self.totals[index] or float("inf")), used

        return max(range(len(self.devices)), key=fullness, default=0)

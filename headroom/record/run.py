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
    """A point of a line over time: RAM, and VRAM in use on each device of the run."""

    at: float
    rss_bytes: int | None
    vram_bytes: tuple[int | None, ...] = ()


class Samples:
    """Memory over time, at most `max_points`: the longer the run, the wider the steps.

    A point stands for its step and holds the largest figures seen in it.
    """

    def __init__(self, max_points: int = MAX_POINTS, step: float = FIRST_STEP_SECONDS) -> None:
        self._max_points = max_points
        self._step = step
        self.points: list[Sample] = []

    def add(self, sample: Sample) -> None:
        """Add one point; costs a comparison, and now and then a halving of the line."""
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


def _swapped(reading: Reading) -> int | None:
    return None if reading.strain is None else reading.strain.swapped_bytes


def _at(reading: Reading, at: float | None) -> Reading:
    return reading if at is None or at == reading.at else reading._replace(at=at)


def _joined(earlier: Sample, later: Sample) -> Sample:
    """Return the earlier moment with the larger of all figures."""
    vram = map(_most, earlier.vram_bytes, later.vram_bytes)
    return Sample(earlier.at, _most(earlier.rss_bytes, later.rss_bytes), tuple(vram))


def _most(one: int | None, other: int | None) -> int | None:
    return max((amount for amount in (one, other) if amount is not None), default=None)


class RamLow(NamedTuple):
    """How little RAM was left in a run, of how much."""

    least_left_bytes: int
    total_bytes: int


class NodeError(NamedTuple):
    """What a node raised: the name of its class and its text."""

    node_id: str | None
    kind: str
    text: str


@dataclass
class Run:
    """The record of one prompt. Not thread-safe: the recorder guards it.

    `devices`: all that models may go to, in the order of each reading's; none on a CPU server.
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
    drawn: dict[str, Drawn] = field(default_factory=dict)  # which nodes drew them, the largest
    foreign: list[dict[str, object]] = field(default_factory=list)  # what packs held after it
    ram_low: RamLow | None = None  # where RAM nearly ran out
    ram_held: dict[str, Any] | None = None  # who held RAM after it, where it was looked up

    def __post_init__(self) -> None:
        self._last = self.began
        self.swapped_before = _swapped(self.began)
        self.totals = [use.total_bytes for use in self.began.devices]
        self.nodes.observe((), self.began.at)
        self._add(self.began, now(self.began), [use.used_bytes for use in self.began.devices])

    def observe(self, reading: Reading) -> None:
        """Take in one measurement of memory, and what it tells about the time before it.

        One that another thread made and entered later than it should have tells of itself alone.
        One that was made for a run on other devices is none of this run's.
        """
        last = self._last
        if reading is last or len(reading.devices) != len(self.devices):
            return
        self.nodes.strained(reading.strain)
        if self.swapped_before is None:
            self.swapped_before = _swapped(reading)
        if reading.at < last.at:
            peaks, vram = now(reading), [use.used_bytes for use in reading.devices]
            self.nodes.observe_moment(peaks, reading.at)
        else:
            peaks = between(last, reading)
            vram = list(map(reached, last.devices, reading.devices))
            self.nodes.observe(peaks, reading.at)
            self._last = reading
        self._add(reading, peaks, vram)

    def _add(self, reading: Reading, peaks: Peaks, vram: list[int | None]) -> None:
        self.totals = list(map(_most, self.totals, [use.total_bytes for use in reading.devices]))
        self.peak_rss_bytes = _most(self.peak_rss_bytes, reading.rss_bytes)
        self.samples.add(Sample(reading.at, reading.rss_bytes, tuple(vram)))
        self.peaks = larger(self.peaks, peaks)

    def node_starts(self, node_id: str, reading: Reading, at: float | None = None) -> None:
        """ComfyUI took the node up, at this time where memory was read before it."""
        self.observe(reading)
        self.nodes.started(node_id, _at(reading, at))

    def node_finishes(self, node_id: str, reading: Reading, at: float | None = None) -> None:
        """The node's outputs were there, at this time where memory was read before it."""
        self.observe(reading)
        self.nodes.finished(node_id, _at(reading, at))

    def note(self, at: float, entry: Entry) -> None:
        """Add what happened; the oldest go when there are too many.

        An out-of-memory attempt stands when memory ran out; how it ended is put into its entry.
        """
        if isinstance(entry, OomAttempt):
            at = entry.at
            for index, (_, known) in enumerate(self.entries):
                if isinstance(known, OomAttempt) and known.number == entry.number:
                    self.entries[index] = (at, entry)
                    return
        self.entries.append((at, entry))
        del self.entries[:-MAX_ENTRIES]

    def after(self, foreign: list[dict[str, object]], previews: Previews | None) -> None:
        """It is over: what packs hold, and how its previews were drawn."""
        self.foreign.extend(foreign)
        self.previews = previews

    def held_then(self, held: dict[str, Any] | None, low: RamLow | None = None) -> None:
        """It is over: who holds RAM, and how little was left where it nearly ran out."""
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

    @property
    def fullest(self) -> int:
        """The number of the device that came nearest to full, 0 where nobody can tell."""

        def fullness(index: int) -> tuple[float, int]:
            peak = self.peaks[index]
            used = peak.at_least if peak is not None else 0
            return used / (self.totals[index] or float("inf")), used

        return max(range(len(self.devices)), key=fullness, default=0)

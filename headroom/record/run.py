"""One prompt's record: its nodes, memory over time, out-of-memory attempts and our actions."""

from dataclasses import dataclass, field
from typing import Any, Literal

from ..base.device import in_mib
from ..host.types import Outcome, RunStatus
from ..measure.journal import Action, Entry, OomAttempt
from .nodes import NodeRecord, NodeTable, Reading

MAX_POINTS = 1000
FIRST_STEP_SECONDS = 0.002


class Samples:
    """Readings over time, at most `max_points`: the longer the run, the wider the steps.

    A point stands for its step and holds the largest figures seen in it.
    """

    def __init__(self, max_points: int = MAX_POINTS, step: float = FIRST_STEP_SECONDS) -> None:
        self._max_points = max_points
        self._step = step
        self.points: list[Reading] = []

    def add(self, reading: Reading) -> None:
        """Add one reading; costs a comparison, and now and then a halving of the line."""
        if self.points and reading.at - self.points[-1].at < self._step:
            self.points[-1] = larger(self.points[-1], reading)
            return
        self.points.append(reading)
        if len(self.points) > self._max_points:
            self._halve()

    def _halve(self) -> None:
        self._step *= 2
        old, self.points = self.points, []
        for reading in old:
            self.add(reading)


def larger(earlier: Reading, later: Reading) -> Reading:
    """Return the earlier moment with the larger of both figures."""
    known = [r.largest_bytes for r in (earlier, later) if r.largest_bytes is not None]
    return Reading(
        earlier.at, max(known, default=None), max(earlier.rss_bytes, later.rss_bytes)
    )


MAX_ENTRIES = 500


@dataclass(frozen=True)
class Place:
    """Where a run's models live: the device, its size, and who tells its VRAM in use."""

    device: str
    vram_total_bytes: int | None = None
    vram_source: Literal["driver", "torch"] | None = None


@dataclass
class Run:
    """The record of one prompt. Not thread-safe: the recorder guards it."""

    prompt_id: str
    place: Place
    began: Reading
    started_at: float
    nodes: NodeTable
    status: RunStatus = "running"
    ended: Reading | None = None
    samples: Samples = field(default_factory=Samples)
    peak_vram_bytes: int | None = None
    peak_rss_bytes: int = 0
    entries: list[tuple[float, Entry]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observe(self.began)

    def observe(self, reading: Reading) -> None:
        """Take in one measurement of memory."""
        self.samples.add(reading)
        self.peak_rss_bytes = max(self.peak_rss_bytes, reading.rss_bytes)
        if reading.largest_bytes is not None:
            self.peak_vram_bytes = max(self.peak_vram_bytes or 0, reading.largest_bytes)
        self.nodes.observe(reading)

    def node_starts(self, node_id: str, at: float, memory: Reading) -> None:
        """ComfyUI took the node up at this time; `memory` is of then, or of a moment before."""
        self.nodes.started(node_id, self._stamp(at, memory))

    def node_finishes(self, node_id: str, at: float, memory: Reading) -> None:
        """The node's outputs were there at this time."""
        self.nodes.finished(node_id, self._stamp(at, memory))

    def _stamp(self, at: float, memory: Reading) -> Reading:
        if memory.at >= at:
            self.observe(memory)
            return memory
        return Reading(at, memory.vram_bytes, memory.rss_bytes)

    def note(self, at: float, entry: Entry) -> None:
        """Add an action or an out-of-memory attempt; the oldest go when there are too many."""
        self.entries.append((at, entry))
        del self.entries[:-MAX_ENTRIES]

    def end(self, reading: Reading) -> None:
        """The prompt has left the executor; its outcome is known a moment later."""
        self.observe(reading)
        self.ended = reading
        self.nodes.run_ended(reading)

    def settle(self, outcome: Outcome) -> None:
        """ComfyUI has told how the prompt ended."""
        self.status = outcome.status
        self.nodes.settle(outcome.failed_node_id, outcome.cached_node_ids)

    def as_json(self, now: float, with_samples: bool = False) -> dict[str, Any]:
        """Return the record as plain data: MiB, and seconds since the run began."""
        end = self.ended.at if self.ended is not None else now
        data: dict[str, Any] = {
            "prompt_id": self.prompt_id,
            "status": self.status,
            "device": self.place.device,
            "started_at": round(self.started_at, 3),
            "seconds": _seconds(end - self.began.at),
            "peak_vram_mib": in_mib(self.peak_vram_bytes),
            "peak_rss_mib": in_mib(self.peak_rss_bytes),
            "vram_total_mib": in_mib(self.place.vram_total_bytes),
            "vram_source": self.place.vram_source,
            "nodes": self._nodes_json(now),
            "nodes_left_out": self.nodes.left_out,
            "oom": [self._oom_json(at, e) for at, e in self.entries if isinstance(e, OomAttempt)],
            "actions": [_action_json(at - self.began.at, e) for at, e in self.entries
                        if isinstance(e, Action)],
        }
        if with_samples:
            data["samples"] = self._samples_json()
        return data

    def _nodes_json(self, now: float) -> list[dict[str, Any]]:
        records = self.nodes.records.values()
        ran = [record for record in records if record.before is not None]
        cached = [record for record in records if record.before is None]
        return [_node_json(record, self.began.at, now) for record in [*ran, *cached]]

    def recovery_json(self, entry: OomAttempt) -> dict[str, Any]:
        """Return what the browser is told at once: which node had run out, and what helped."""
        record = self.nodes.records.get(entry.node_id or "")
        info = record.info if record is not None else None
        return {
            "prompt_id": entry.prompt_id,
            "display_node_id": info.display_node_id if info is not None else entry.node_id,
            "title": info.title if info is not None else None,
            **self._attempt_json(entry),
        }

    def _oom_json(self, at: float, entry: OomAttempt) -> dict[str, Any]:
        return {**self._attempt_json(entry), "at_seconds": _seconds(at - self.began.at)}

    def _attempt_json(self, entry: OomAttempt) -> dict[str, Any]:
        record = self.nodes.records.get(entry.node_id or "")
        return {
            "node_id": entry.node_id,
            "class_type": record.info.class_type if record is not None else None,
            "attempt": entry.attempt,
            "action": entry.action,
            "freed_mib": round(entry.freed_mib, 3),
            "error": entry.error,
            "recovered": entry.recovered,
        }

    def _samples_json(self) -> dict[str, list[float | None]]:
        points = self.samples.points
        return {
            "seconds": [_seconds(point.at - self.began.at) for point in points],
            "vram_mib": [in_mib(point.largest_bytes) for point in points],
            "rss_mib": [in_mib(point.rss_bytes) for point in points],
        }


def _node_json(record: NodeRecord, began: float, now: float) -> dict[str, Any]:
    info = record.info
    spans = list(record.spans)
    if record.opened is not None:
        spans.append((record.opened.at, now))
    return {
        "node_id": info.node_id,
        "display_node_id": info.display_node_id,
        "parent_node_id": info.parent_node_id,
        "class_type": info.class_type,
        "title": info.title,
        "status": "running" if record.status == "waiting" else record.status,
        "start_seconds": _seconds(spans[0][0] - began) if spans else None,
        "seconds": _seconds(sum((end - start for start, end in spans), 0.0)),
        "spans": [[_seconds(start - began), _seconds(end - began)] for start, end in spans],
        "cached": record.status == "cached",
        "vram_before_mib": in_mib(_vram(record.before)),
        "vram_after_mib": in_mib(_vram(record.after)),
        "peak_vram_mib": in_mib(record.peak_vram_bytes),
        "rss_before_mib": in_mib(_rss(record.before)),
        "rss_after_mib": in_mib(_rss(record.after)),
    }


def _action_json(at: float, entry: Action) -> dict[str, Any]:
    return {
        "node_id": entry.node_id,
        "action": entry.action,
        "freed_mib": round(entry.freed_mib, 3),
        "text": entry.text,
        "at_seconds": _seconds(at),
    }


def _vram(reading: Reading | None) -> int | None:
    return reading.vram_bytes if reading is not None else None


def _rss(reading: Reading | None) -> int | None:
    return reading.rss_bytes if reading is not None else None


def _seconds(value: float) -> float:
    return round(value, 6)

"""Turn ComfyUI's events of nodes into the time and memory of each node.

ComfyUI reports the beginning of a node each time it starts it, and the end once, when its outputs
are there. Between the two other nodes may run: a lazy node that asked for more inputs is started
again later, an expanding node waits for the nodes it made, an async node runs beside others. Only
async nodes can run while another node begins, so an event of another node ends a sync node's span.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from ..host.types import NodeLabel
from ..measure.strain import Strain
from .memory import Peaks, Reading, larger, now, perhaps

NodeStatus = Literal["running", "waiting", "done", "cached", "failed", "stopped"]
MAX_NODES = 2000


@dataclass(slots=True)
class NodeRecord:
    """One node of a run: when it ran, and its memory at that time."""

    info: NodeLabel
    status: NodeStatus = "running"
    spans: list[tuple[float, float]] = field(default_factory=list)
    opened: Reading | None = None
    interrupted_by: Reading | None = None
    before: Reading | None = None
    after: Reading | None = None
    peaks: Peaks = ()
    spilled_bytes: int = 0  # the most VRAM that was in RAM while it ran
    swapped_bytes: int = 0  # the most swap in use while it ran
    read_bytes: int = 0  # from disk while it ran
    read_seconds: float = 0.0  # of its own time in which it read them
    _at_first: Strain | None = None

    @property
    def seconds(self) -> float:
        """The node's own time, without waits for other nodes."""
        return sum((end - start for start, end in self.spans), 0.0)

    def open(self, reading: Reading) -> None:
        self.status = "running"
        self.opened = reading
        self.interrupted_by = None
        self.before = self.before or reading
        self.peaks = larger(self.peaks, now(reading))

    def close(self, reading: Reading) -> None:
        if self.opened is not None:
            self.spans.append((self.opened.at, max(self.opened.at, reading.at)))
            self.opened = None
        self.status = "waiting"
        self.after = reading
        self.peaks = larger(self.peaks, now(reading))

    def strained(self, strain: Strain) -> None:
        """Add what slowed the machine down while the node ran: swap, disk reads, spilled VRAM."""
        self.spilled_bytes = max(self.spilled_bytes, strain.spilled_bytes or 0)
        self.swapped_bytes = max(self.swapped_bytes, strain.swapped_bytes or 0)
        if strain.read_bytes is not None:
            before = self._at_first = self._at_first or strain
            self.read_bytes = max(0, strain.read_bytes - (before.read_bytes or 0))
            self.read_seconds = strain.read_seconds - before.read_seconds


class NodeTable:
    """The nodes of one run in the order in which they began, bounded to `limit` nodes."""

    def __init__(self, describe: Callable[[str], NodeLabel], limit: int = MAX_NODES) -> None:
        self._describe: Callable[[str], NodeLabel] | None = describe
        self._limit = limit
        self._open: dict[str, NodeRecord] = {}
        self._read_at = 0.0
        self._ran: dict[str, NodeRecord] = {}  # the nodes that ran since the last reading
        self.records: dict[str, NodeRecord] = {}
        self.left_out: dict[str, tuple[str, int]] = {}  # by node on the canvas: title, runs

    def started(self, node_id: str, reading: Reading) -> None:
        """ComfyUI starts the node, for the first time or again."""
        record = self._record(node_id)
        self._others_end(node_id, record, reading)
        if record is None:
            if self._describe is not None:
                info = self._describe(node_id)
                title, count = self.left_out.get(info.display_node_id, (info.title, 0))
                self.left_out[info.display_node_id] = title, count + 1
            return
        if record.opened is not None:
            # Started again without an end: until now it had only asked for lazy inputs.
            record.close(record.interrupted_by or reading)
        record.open(reading)
        self._open[node_id] = self._ran[node_id] = record

    def finished(self, node_id: str, reading: Reading) -> None:
        """The node's outputs are there; if it never began, they came from the cache."""
        known = node_id in self.records
        record = self._record(node_id)
        self._others_end(node_id, record, reading)
        if record is None:
            return
        if node_id in self._open:
            self._close(node_id, reading)
        record.status = "done" if known and record.status != "cached" else "cached"

    def observe(self, peaks: Peaks, at: float) -> None:
        """Add the peaks since the last reading, up to this time.

        They count for a node that ran all this time, or that ran alone. Where several nodes ran in
        turns, any of them may have caused the peaks.
        """
        since, self._read_at = self._read_at, at
        ran, self._ran = self._ran, dict(self._open)
        for record in ran.values():
            all_the_time = record.opened is not None and record.opened.at <= since
            sure = all_the_time or len(ran) == 1
            record.peaks = (larger if sure else perhaps)(record.peaks, peaks)

    def strained(self, strain: Strain | None) -> None:
        """Count swap, disk reads and spilled VRAM at this moment for every node that runs."""
        if strain is not None:
            for record in self._open.values():
                record.strained(strain)

    def run_ended(self, reading: Reading) -> None:
        """The prompt is over; a sync node that still runs is the one that raised the error."""
        for node_id, record in list(self._open.items()):
            self._close(node_id, reading)
            if not record.info.is_async:
                record.status = "failed"

    def settle(
        self, failed_node_id: str | None, cached_node_ids: Iterable[str] = (),
        interrupted: bool = False,
    ) -> None:
        """Set the outcome of nodes without an end, and add the nodes that never started.

        ComfyUI tells which node raised an error, and which nodes had outputs in the cache: it does
        not even check nodes whose outputs are no longer needed. Only those of the prompt itself
        count. Later no node can be added.
        """
        # For an error in a loop ComfyUI names the loop's begin node, which only waited. What a node
        # expanded to is shown on the canvas as that node: then both failed.
        inside = any(record.status == "failed" and record.info.display_node_id != failed_node_id
                     for record in self.records.values())
        for node_id, record in self.records.items():
            if record.status in ("running", "waiting"):
                is_named = node_id == failed_node_id and not inside
                record.status = "failed" if is_named else "stopped"
            if interrupted and record.status == "failed":
                record.status = "stopped"
        for node_id in cached_node_ids:
            is_known = self._describe is not None and self._describe(node_id).class_type
            if node_id not in self.records and is_known and (unseen := self._record(node_id)):
                unseen.status = "cached"
        self._describe = None  # it holds the prompt's graph with all its inputs

    def _others_end(self, node_id: str, record: NodeRecord | None, reading: Reading) -> None:
        if not self._open or (len(self._open) == 1 and node_id in self._open):
            return
        parent = record.info.parent_node_id if record is not None else None
        for other_id, other in list(self._open.items()):
            if other_id == node_id:
                continue
            if not other.info.is_async or other_id == parent:
                self._close(other_id, reading)
            elif other.interrupted_by is None:
                other.interrupted_by = reading

    def _close(self, node_id: str, reading: Reading) -> None:
        self._open.pop(node_id).close(reading)
        if reading.at <= self._read_at:
            self._ran.pop(node_id, None)

    def _record(self, node_id: str) -> NodeRecord | None:
        record = self.records.get(node_id)
        if record is None:
            if self._describe is None or len(self.records) >= self._limit:
                return None
            record = self.records[node_id] = NodeRecord(self._describe(node_id))
        return record

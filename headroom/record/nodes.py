"""Turn the beginnings and endings that ComfyUI tells into the time and memory of each node.

ComfyUI tells the beginning of a node each time it takes it up, and the end once, when its outputs
are there. Between the two other nodes may run: a lazy node that asked for more inputs is taken up
again later, an expanding one waits for the nodes it made, an async one runs beside others. Only
async nodes can run while another node begins, so any event of another node ends a sync one's span.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ..host.types import NodeLabel

NodeStatus = Literal["running", "waiting", "done", "cached", "failed", "stopped"]
MAX_NODES = 2000


class Reading(NamedTuple):
    """Memory at one moment (`at`: seconds of a monotonic clock); vram_bytes None: unknown here.

    `peak_bytes` is the largest use of VRAM after `since` (when it was measured before), where the
    allocator tells. (Named tuples are made in a third of the time of a frozen dataclass, and
    there are two for every node.)
    """

    at: float
    vram_bytes: int | None
    rss_bytes: int
    peak_bytes: int | None = None
    since: float = float("-inf")

    @property
    def largest_bytes(self) -> int | None:
        """The larger of the VRAM in use at this moment and at the peak before it."""
        if self.vram_bytes is None or self.peak_bytes is None:
            return self.vram_bytes
        return max(self.vram_bytes, self.peak_bytes)


@dataclass(slots=True)
class NodeRecord:
    """One node of a run: when it ran and what memory did meanwhile."""

    info: NodeLabel
    status: NodeStatus = "running"
    spans: list[tuple[float, float]] = field(default_factory=list)
    opened: Reading | None = None
    interrupted_by: Reading | None = None
    before: Reading | None = None
    after: Reading | None = None
    peak_vram_bytes: int | None = None

    @property
    def seconds(self) -> float:
        """The node's own time; waits for other nodes are not in it."""
        return sum((end - start for start, end in self.spans), 0.0)

    def open(self, reading: Reading) -> None:
        self.status = "running"
        self.opened = reading
        self.interrupted_by = None
        self.before = self.before or reading
        self.raise_peak(reading.vram_bytes)

    def close(self, reading: Reading) -> None:
        if self.opened is not None:
            self.spans.append((self.opened.at, reading.at))
            self.opened = None
        self.status = "waiting"
        self.after = reading
        self.raise_peak(reading.vram_bytes)

    def raise_peak(self, vram_bytes: int | None) -> None:
        if vram_bytes is not None:
            self.peak_vram_bytes = max(vram_bytes, self.peak_vram_bytes or 0)


class NodeTable:
    """The nodes of one run in the order in which they began, bounded to `limit` nodes."""

    def __init__(self, describe: Callable[[str], NodeLabel], limit: int = MAX_NODES) -> None:
        self._describe: Callable[[str], NodeLabel] | None = describe
        self._limit = limit
        self._open: dict[str, NodeRecord] = {}
        self.records: dict[str, NodeRecord] = {}
        self.left_out = 0

    def started(self, node_id: str, reading: Reading) -> None:
        """ComfyUI takes the node up, for the first time or again."""
        record = self._record(node_id)
        self._others_end(node_id, record, reading)
        if record is None:
            self.left_out += 1
            return
        if record.opened is not None:
            # Taken up again without an end: it had only asked for lazy inputs until then.
            record.close(record.interrupted_by or reading)
        record.open(reading)
        self._open[node_id] = record

    def finished(self, node_id: str, reading: Reading) -> None:
        """The node's outputs are there; one that never began had them in the cache."""
        known = node_id in self.records
        record = self._record(node_id)
        self._others_end(node_id, record, reading)
        if record is None:
            return
        if node_id in self._open:
            self._close(node_id, reading)
        record.status = "done" if known and record.status != "cached" else "cached"

    def observe(self, reading: Reading) -> None:
        """Memory was read; it counts for the nodes that ran then.

        A peak before the reading counts for a node that ran for the larger part of that time.
        """
        halfway = (reading.since + reading.at) / 2
        for record in self._open.values():
            if record.opened is not None and reading.at >= record.opened.at:
                early = record.opened.at <= max(reading.since, halfway)
                record.raise_peak(reading.largest_bytes if early else reading.vram_bytes)

    def run_ended(self, reading: Reading) -> None:
        """The prompt is over; a sync node that still runs is the one that raised."""
        for node_id, record in list(self._open.items()):
            self._close(node_id, reading)
            if not record.info.is_async:
                record.status = "failed"

    def settle(self, failed_node_id: str | None, cached_node_ids: Iterable[str] = ()) -> None:
        """Say how the nodes ended that never came to their end, and add those never looked at.

        ComfyUI tells which node raised, and which had outputs in the cache: it does not even look
        at those whose outputs nobody needs any more. No node can be added afterwards.
        """
        for node_id, record in self.records.items():
            if record.status in ("running", "waiting"):
                record.status = "failed" if node_id == failed_node_id else "stopped"
        for node_id in cached_node_ids:
            unseen = self._record(node_id) if node_id not in self.records else None
            if unseen is not None:
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

    def _record(self, node_id: str) -> NodeRecord | None:
        record = self.records.get(node_id)
        if record is None:
            if self._describe is None or len(self.records) >= self._limit:
                return None
            record = self.records[node_id] = NodeRecord(self._describe(node_id))
        return record

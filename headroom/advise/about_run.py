"""What to do about an error, VRAM that spilled into RAM, and weights read from disk all the time.

They are not about the peak on the GPU, so these findings save no memory.
"""

from collections.abc import Callable, Iterator
from typing import Any

from ..base.device import MIB, in_mib
from ..base.error_table import row_of
from ..base.said import joined
from ..host.adapter import LEAVES_VRAM, has_flag
from ..record.nodes import NodeRecord
from ..record.run import Run
from .finding import NOTHING, Finding
from .words import amounts

LEAST_SPILL = 256 * MIB
LEAST_READ = 1024 * MIB
KEEPS_IN_RAM = "--disable-fast-disk"
MUCH_RAM = 0.6


def about_error(run: Run) -> list[dict[str, Any]]:
    """Return what to do about the error that ended a run, if the table of errors knows it."""
    row = None if run.error is None else row_of(run.error.kind, run.error.text)
    if run.error is None or row is None or row.family == "device memory":
        return []
    node_id = run.error.node_id
    values = {"what": row.what, "do": joined("; ", row.advice(has_flag))}
    finding = Finding("error", NOTHING, values, {"node_id": node_id},
                      (node_id,) if node_id is not None else ())
    return [{**finding.as_json(), "id": f"error-{row.id}"}]


def about_strain(
    run: Run, limit_bytes: int, is_there: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """Return what to do about the node that spilled or read most; `limit_bytes`: of RAM."""
    records = list(run.nodes.records.values())
    found = [*_spilled(records, is_there), *_read(run, records, limit_bytes, is_there)]
    return [one.as_json() for one in found]


def _spilled(records: list[NodeRecord], is_there: Callable[[str], bool]) -> Iterator[Finding]:
    most = max(records, key=lambda record: record.spilled_bytes, default=None)
    flag = next(filter(is_there, LEAVES_VRAM), None)
    if most is not None and most.spilled_bytes >= LEAST_SPILL and flag is not None:
        gib = round(most.spilled_bytes / 1024 / MIB + 0.5, 1)
        yield _finding("spill", most, {"flag": flag, "gib": gib,
                                       **amounts(spilled=most.spilled_bytes)},
                       {"spilled_mib": in_mib(most.spilled_bytes)})


def _read(
    run: Run, records: list[NodeRecord], limit_bytes: int, is_there: Callable[[str], bool]
) -> Iterator[Finding]:
    """Yield this finding for weights that are loaded page by page, if RAM has room for them."""
    most = max(records, key=lambda record: record.read_bytes, default=None)
    has_room = (run.peak_rss_bytes or 0) < MUCH_RAM * limit_bytes
    if most is None or most.read_bytes < LEAST_READ or not has_room or not is_there(KEEPS_IN_RAM):
        return
    if most.after is not None and any(held.model.is_dynamic for held in most.after.models):
        speed = most.read_bytes / (most.read_seconds or max(most.seconds, 0.001))
        yield _finding("disk_reads", most, {"flag": KEEPS_IN_RAM, **amounts(
            read=most.read_bytes, speed=int(speed))}, {"read_mib": in_mib(most.read_bytes)})


def _finding(
    kind: str, record: NodeRecord, values: dict[str, Any], measured: dict[str, Any]
) -> Finding:
    node_id = record.info.node_id
    name = {"node": f"{record.info.title} #{node_id}", "node_id": node_id}
    return Finding(kind, NOTHING, {**name, **values}, {"node_id": node_id, **measured},
                   (node_id,))

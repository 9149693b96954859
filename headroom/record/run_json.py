"""A run's record as plain data, for HTTP and for the `data` output of Memory Report.

MiB, and seconds since the run began. Figures of VRAM outside of `devices` are those of the device
that was closest to full (`device`); `devices` has the figures of each device. A peak was certainly
reached; it was certainly not above `peak_vram_at_most_mib`, which is null if nobody can tell.
"""

from typing import Any

from ..base.device import MIB, in_mib
from ..base.error_table import first_line, row_of
from ..base.said import said, said_json
from ..host.adapter import has_flag
from ..measure.journal import Action, GaveUp, OomAttempt
from .memory import Peak, used_on
from .nodes import NodeRecord
from .run import NodeError, Run
from .turns import growths

Json = dict[str, Any]
NOTABLE_SPILL_BYTES = 64 * MIB


def run_json(
    run: Run, now: float, with_samples: bool = False, with_nodes: bool = True
) -> Json:
    """Return the record of a run, or its record so far; nodes that still run end at `now`."""
    end = run.ended.at if run.ended is not None else now
    main = run.fullest
    cards = list(zip(run.devices, run.totals, run.peaks, strict=True))
    device, total_bytes, peak = cards[main] if cards else ("cpu", None, None)
    data: Json = {
        "prompt_id": run.prompt_id,
        "status": run.status,
        "device": device,
        "started_at": round(run.started_at, 3),
        "seconds": _seconds(end - run.began.at),
        "peak_rss_mib": in_mib(run.peak_rss_bytes),
        **_card_json(total_bytes, peak),
        "devices": [{"device": name, **_card_json(total, most)} for name, total, most in cards],
        "nodes_left_out": sum(count for _, count in run.nodes.left_out.values()),
        "left_out": [{"display_node_id": node_id, "title": title, "count": count}
                     for node_id, (title, count) in run.nodes.left_out.items()],
        "grows": [{"what": growth.what, "mib_a_turn": in_mib(growth.bytes_a_turn),
                   "turns": growth.turns, "display_node_id": growth.node.display_node_id,
                   "title": growth.node.title}
                  for growth in growths(run.nodes.records.values(), main)],
        "oom": [attempt_json(run, entry) for _, entry in run.entries
                if isinstance(entry, OomAttempt)],
        "gave_up": [_entry_json(at - run.began.at, entry) for at, entry in run.entries
                    if isinstance(entry, GaveUp)],
        "actions": [{**_entry_json(at - run.began.at, entry), "action": entry.action,
                     "freed_mib": entry.freed_mib and round(entry.freed_mib, 3)}
                    for at, entry in run.entries if isinstance(entry, Action)],
        "spilled": [{"node_id": record.info.node_id, "spilled_mib": in_mib(record.spilled_bytes),
                     **_told(said("spilled {spilled_mib} while {node} ran",
                                  spilled_mib=record.spilled_bytes / MIB,
                                  node=f"{record.info.title} #{record.info.node_id}"))}
                    for record in run.nodes.records.values()
                    if record.spilled_bytes >= NOTABLE_SPILL_BYTES],
        "foreign": run.foreign,
        "ram_low": None if (low := run.ram_low) is None else {
            "least_left_mib": in_mib(low.least_left_bytes), "total_mib": in_mib(low.total_bytes)},
        "ram_held": run.ram_held,
        "error": None if run.error is None else error_json(run, run.error),
    }
    if with_nodes:
        data["nodes"] = [_node_json(run, record, main, now) for record in sorted(
            run.nodes.records.values(), key=lambda record: record.before is None)]
    if with_samples:
        data["samples"] = _samples_json(run, main)
    return data


def recovery_json(run: Run, entry: OomAttempt) -> Json:
    """Return what browsers get at once: which node ran out of memory, and what helped."""
    record = run.nodes.records.get(entry.node_id or "")
    info = record.info if record is not None else None
    return {
        "prompt_id": entry.prompt_id,
        "display_node_id": info.display_node_id if info is not None else entry.node_id,
        "title": info.title if info is not None else None,
        **attempt_json(run, entry),
    }


def attempt_json(run: Run, entry: OomAttempt) -> Json:
    record = run.nodes.records.get(entry.node_id or "")
    return {
        "node_id": entry.node_id,
        "class_type": record.info.class_type if record is not None else None,
        "attempt": entry.attempt,
        "action": entry.action,
        "said": said_json(entry.action),
        "freed_mib": round(entry.freed_mib, 3),
        "error": entry.error,
        "recovered": entry.recovered,
        "at_seconds": _seconds(entry.at - run.began.at),
    }


def error_json(run: Run, error: NodeError) -> Json:
    """Return what a node raised, and what that means if the table of errors knows it."""
    record = run.nodes.records.get(error.node_id or "")
    row = row_of(error.kind, error.text)
    gave_up = any(isinstance(entry, GaveUp) and entry.node_id == error.node_id
                  for _, entry in run.entries)
    return {
        "node_id": error.node_id,
        "class_type": record.info.class_type if record is not None else None,
        "error": first_line(error.kind, error.text),
        "means": None if row is None else {
            "id": row.id, "family": row.family, "retry": row.retry,
            "what": _told(row.what), "why": _told(row.why),
            "do": [_told(phrase) for phrase in row.advice(has_flag, gave_up)],
        },
    }


def _told(phrase: str) -> Json:
    return {"text": phrase, "said": said_json(phrase)}


def _node_json(run: Run, record: NodeRecord, main: int, now: float) -> Json:
    info, began = record.info, run.began.at
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
        **_vram_json(run, record, main),
        "spilled_mib": in_mib(record.spilled_bytes),
        "read_mib": in_mib(record.read_bytes),
        "read_seconds": round(record.read_seconds, 3),
        "rss_before_mib": in_mib(record.before.rss_bytes if record.before else None),
        "rss_after_mib": in_mib(record.after.rss_bytes if record.after else None),
        "devices": [{"device": device, **_vram_json(run, record, index)}
                    for index, device in enumerate(run.devices)],
    }


def _vram_json(run: Run, record: NodeRecord, index: int) -> Json:
    known = index < len(record.peaks)
    return {
        "vram_before_mib": in_mib(used_on(record.before, index)),
        "vram_after_mib": in_mib(used_on(record.after, index)),
        **_peak_json(record.peaks[index] if known else None, run.totals[index] if known else None),
    }


def _card_json(total_bytes: int | None, peak: Peak | None) -> Json:
    source = "torch" if total_bytes is None else "driver"
    return {
        "vram_total_mib": in_mib(total_bytes),
        "vram_source": source if peak is not None else None,
        **_peak_json(peak, total_bytes),
    }


def _peak_json(peak: Peak | None, total_bytes: int | None) -> Json:
    at_most = peak.at_most if peak is not None else None
    if peak is not None and at_most is not None and total_bytes is not None:
        at_most = max(min(at_most, total_bytes), peak.at_least)
    return {
        "peak_vram_mib": in_mib(peak.at_least if peak is not None else None),
        "peak_vram_at_most_mib": in_mib(at_most),
    }


def _samples_json(run: Run, main: int) -> Json:
    points = run.samples.points
    lines = {device: [in_mib(point.vram_bytes[i]) for point in points]
             for i, device in enumerate(run.devices)}
    return {
        "seconds": [_seconds(point.at - run.began.at) for point in points],
        "vram_mib": list(lines.values())[main] if lines else [None] * len(points),
        "rss_mib": [in_mib(point.rss_bytes) for point in points],
        "devices": lines,
    }


def _entry_json(at: float, entry: Action | GaveUp) -> Json:
    return {"node_id": entry.node_id, **_told(entry.text), "at_seconds": _seconds(at)}


def _seconds(value: float) -> float:
    return round(max(value, 0.0), 6)  # a clock may jump back, a time is never negative

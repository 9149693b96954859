"""The record of a run as a table: Markdown that also reads well as plain text.

ComfyUI's Preview Any shows text as Markdown, where spaces alone do not align columns.
"""

from typing import Any

from ..base.device import MIB, mib_text
from ..measure.journal import OUTCOMES

MAX_LINES = 200
MOST_LEFT_OUT = 5  # nodes that are named
AT_LEAST = "≥ "
NOT_RECORDED = (
    "Nothing was recorded: this node needs a ComfyUI server that runs the prompt, with Headroom "
    "not turned off."
)


def record_text(run: dict[str, Any] | None) -> str:
    """Return a run's record (as `run_json` returns it) as text: totals, then one line a node."""
    if run is None:
        return NOT_RECORDED
    used, end = _used(run), " so far" if run["status"] == "running" else f", {run['status']}"
    totals = [
        f"- {run['seconds']:,.1f} s{end} on {run['device']}",
        *(_peak_line(device, f" on {device['device']}" * (len(used) > 1)) for device in used),
        f"- peak RAM of this process {_mib_text(run['peak_rss_mib'])} MiB",
    ]
    return "\n".join([*totals, *_loops(run), "", *_table(run), *_events(run)])


def _loops(run: dict[str, Any]) -> list[str]:
    """Return what grows with each turn of a loop, and nodes that ran too often to be recorded."""
    told = [f"- {one['what']} grows by {one['mib_a_turn']:,.1f} MiB with each turn of a loop "
            f"({one['turns']} turns), most in {one['title']} (#{one['display_node_id']})"
            for one in run.get("grows", [])]
    left = sorted(run.get("left_out", []), key=lambda one: -one["count"])[:MOST_LEFT_OUT]
    return told + [f"- runs of {one['title']} (#{one['display_node_id']}) that are not in the "
                   f"record: {one['count']}" for one in left]


def _used(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the devices of a run that this process has used."""
    return [device for device in part["devices"] if device["peak_vram_mib"] is not None]


def _peak_line(device: dict[str, Any], where: str) -> str:
    whose = "every process" if device["vram_source"] == "driver" else "this process"
    size = device["vram_total_mib"]
    of = f" of {size:,.1f}" if size is not None else ""
    peak = f"{'' if is_exact(device) else 'at least '}{device['peak_vram_mib']:,.1f}"
    return f"- peak VRAM{where} {peak}{of} MiB ({whose} on the card)"


def is_exact(part: dict[str, Any]) -> bool:
    """Return whether the peak of a run, device or node is known within a hundredth."""
    peak, at_most = part["peak_vram_mib"], part["peak_vram_at_most_mib"]
    return at_most is not None and at_most <= 1.01 * peak


def _table(run: dict[str, Any]) -> list[str]:
    nodes, used = run["nodes"], [device["device"] for device in _used(run)]
    titles = ["node", "seconds"]
    for device in used:
        titles += [f"VRAM {device} before" if len(used) > 1 else "VRAM before", "after", "peak"]
    titles += ["RAM before", "after"]
    rows = [_cells(node, used) for node in nodes[:MAX_LINES]]
    widths = [max(3, *(len(row[i]) for row in [titles, *rows])) for i in range(len(titles))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    table = [_line(row, widths) for row in [titles, rule, *rows]]
    if len(nodes) > MAX_LINES:
        left = len(nodes) - MAX_LINES
        table += ["", f"... and {left} more nodes (all of them are in the data)"]
    if any(cell.startswith(AT_LEAST) for row in rows for cell in row[1:]):
        table += ["", f"{AT_LEAST}at least: quick nodes between two readings, or torch's peak was "
                      "reset"]
    return table


def _cells(node: dict[str, Any], used: list[str]) -> list[str]:
    seconds = "cached" if node["cached"] else f"{node['seconds']:,.3f}"
    named = f"{node['title']} (#{node['node_id']})".replace("|", "\\|")
    if node["status"] not in ("done", "cached"):
        named = f"{named} [{node['status']}]"
    vram = [cell for device in node["devices"] if device["device"] in used
            for cell in _vram_cells(device)]
    ram = [_mib_text(node[figure]) for figure in ("rss_before_mib", "rss_after_mib")]
    return [named, seconds, *vram, *ram]


def _vram_cells(device: dict[str, Any]) -> list[str]:
    before, after, peak = (
        _mib_text(device[figure])
        for figure in ("vram_before_mib", "vram_after_mib", "peak_vram_mib")
    )
    is_known = device["peak_vram_mib"] is None or is_exact(device)
    return [before, after, peak if is_known else f"{AT_LEAST}{peak}"]


def _line(row: list[str], widths: list[int]) -> str:
    figures = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
    return f"| {' | '.join([row[0].ljust(widths[0]), *figures])} |"


def _events(run: dict[str, Any]) -> list[str]:
    told = [_attempt_line(entry) for entry in run["oom"]]
    told += [f"- OOM Guard could not help at {_at(entry)}: {entry['text']}"
             for entry in run.get("gave_up", [])]
    told += [f"- {entry['action']} at {_at(entry)}: {entry['text']}" for entry in run["actions"]]
    return ["", *told] if told else []


def _attempt_line(entry: dict[str, Any]) -> str:
    where = f"- out of memory at {_at(entry)}"
    if entry["attempt"] == 0:  # no guard was there
        return f"{where}: {entry['action']}"
    end, freed = OUTCOMES[entry["recovered"]], mib_text(entry["freed_mib"] * MIB)
    return f"{where}, attempt {entry['attempt']}: {entry['action']}, {freed} freed, {end}"


def _at(entry: dict[str, Any]) -> str:
    return f"{entry['at_seconds']:,.1f} s in #{entry['node_id']}"


def _mib_text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"

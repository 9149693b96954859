"""The record of a run as a table: Markdown that also reads well as plain text.

ComfyUI's Preview Any shows text as Markdown, where spaces alone would not keep columns apart.
"""

import json
from typing import Any

from ..base.said import Said, heard, joined, lines, said, said_json
from ..measure.journal import executing_node
from ..measure.report import tenths
from .recorder import current_recorder

MAX_LINES = 200
MOST_LEFT_OUT = 5  # nodes that are named
AT_LEAST = "≥ "
_OUTCOMES = {None: said("oom_tried", "being tried again"), True: said("oom_helped", "recovered"),
             False: said("oom_not_enough", "not enough yet")}
_STATUS = {"success": "run_success", "error": "run_error", "interrupted": "run_interrupted",
           "running": "node_running", "failed": "node_failed", "stopped": "node_stopped"}
NOT_RECORDED = (
    "Nothing was recorded: this node needs a ComfyUI server that runs the prompt, with Headroom "
    "not turned off."
)


def running_record() -> dict[str, Any] | None:
    """Return the record so far of the prompt that this thread executes, None without one."""
    prompt_id, _ = executing_node()
    found = current_recorder()
    return found.run(prompt_id) if found is not None and prompt_id is not None else None


def record_text(run: dict[str, Any] | None) -> str:
    return run_text(run) if run is not None else NOT_RECORDED


def record_json(run: dict[str, Any] | None) -> str:
    """Return the record as JSON text; `{}` without one."""
    return json.dumps(run or {})


def run_text(run: dict[str, Any]) -> str:
    """Return a run's record (as `run_json` gives it) as text: totals, then one line a node."""
    return lines([*_totals(run), *_loops(run), "", *_table(run), *_events(run)])


def _totals(run: dict[str, Any]) -> list[str]:
    used = _used(run)
    totals = [_time_line(run)]
    totals += [_peak_line(device, f" on {device['device']}" * (len(used) > 1)) for device in used]
    text = f"- peak RAM of this process {_mib_text(run['peak_rss_mib'])} MiB"
    return [*totals, said("report_peak_ram", text, peak_mib=run["peak_rss_mib"])]


def _loops(run: dict[str, Any]) -> list[str]:
    """Return what grows with the turns of loops, and which nodes ran too often to be recorded."""
    told: list[str] = []
    for one in run.get("grows", []):
        values = {"turns": one["turns"], "grown_mib": one["mib_a_turn"], "title": one["title"],
                  "node": f"#{one['display_node_id']}"}
        text = ("- {what} grows by {grown_mib:,.1f} MiB with each turn of a loop ({turns} turns), "
                "most in {title} ({node})").format(what=one["what"], **values)
        key = "report_grows_ram" if one["what"] == "RAM" else "report_grows_vram"
        told.append(said(key, text, **values))
    left = sorted(run.get("left_out", []), key=lambda one: -one["count"])
    for one in left[:MOST_LEFT_OUT]:
        values = {"count": one["count"], "title": one["title"],
                  "node": f"#{one['display_node_id']}"}
        text = "- {count} runs of {title} ({node}) are not in the record".format(**values)
        told.append(said("report_left_out", text, **values))
    return told


def _time_line(run: dict[str, Any]) -> str:
    values = {"seconds": f"{run['seconds']:,.1f}", "device": run["device"]}
    if run["status"] == "running":
        text = "- {seconds} s so far on {device}".format(**values)
        return said("report_so_far", text, **values)
    values["status"] = _status(run["status"])
    text = "- {seconds} s, {status} on {device}".format(**values)
    return said("report_ended", text, **values)


def _status(status: str) -> str:
    key = _STATUS.get(status)
    return status if key is None else said(key, status)


def _used(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the devices of a run that this process has used."""
    return [device for device in part["devices"] if device["peak_vram_mib"] is not None]


def _peak_line(device: dict[str, Any], where: str) -> str:
    whose = (said("of_every_process", "every process") if device["vram_source"] == "driver"
             else said("of_this_process", "this process"))
    size, mib = device["vram_total_mib"], device["peak_vram_mib"]
    of = said("of_size", f" of {size:,.1f}", size_mib=size) if size is not None else ""
    peak = (said("exactly_mib", f"{mib:,.1f}", peak_mib=mib) if is_exact(device)
            else said("at_least_mib", f"at least {mib:,.1f}", peak_mib=mib))
    text = f"- peak VRAM{where} {peak}{of} MiB ({whose} on the card)"
    return said("report_peak", text, device=device["device"], peak=peak, of=of, whose=whose)


def is_exact(part: dict[str, Any]) -> bool:
    """Return whether a run's, device's or node's peak is known to within a hundredth."""
    peak, at_most = part["peak_vram_mib"], part["peak_vram_at_most_mib"]
    return at_most is not None and at_most <= 1.01 * peak


def _table(run: dict[str, Any]) -> list[str]:
    nodes, used = run["nodes"], [device["device"] for device in _used(run)]
    titles = _titles(used)
    rows = [_cells(node, used) for node in nodes[:MAX_LINES]]
    widths = [max(3, *(len(row[i]) for row in [titles, *rows])) for i in range(len(titles))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    table = [_line(row, widths) for row in [titles, rule, *rows]]
    if len(nodes) > MAX_LINES:
        left = len(nodes) - MAX_LINES
        text = f"... and {left} more nodes (all of them are in the data)"
        table += ["", said("report_more", text, count=left)]
    if any(cell.startswith(AT_LEAST) for row in rows for cell in row[1:]):
        why = "at least: quick nodes between two readings, or torch's peak started again"
        table += ["", said("report_at_least", f"{AT_LEAST}{why}")]
    return table


def _titles(used: list[str]) -> list[str]:
    before, after = said("col_vram", "VRAM before"), said("col_after", "after")
    titles = [said("col_node", "node"), said("col_seconds", "seconds")]
    for device in used:
        named = said("col_vram_of", f"VRAM {device} before", device=device)
        titles += [named if len(used) > 1 else before, after, said("col_peak", "peak")]
    return [*titles, said("col_ram", "RAM before"), after]


def _cells(node: dict[str, Any], used: list[str]) -> list[str]:
    seconds = said("col_cached", "cached") if node["cached"] else f"{node['seconds']:,.3f}"
    named = f"{node['title']} (#{node['node_id']})".replace("|", "\\|")
    if node["status"] not in ("done", "cached"):
        mark = _status(node["status"])
        named = said("node_marked", f"{named} [{mark}]", node=named, mark=mark)
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
    cells = [heard(f"{cell:<{width}}" if at == 0 else f"{cell:>{width}}", said_json(cell))
             for at, (cell, width) in enumerate(zip(row, widths, strict=True))]
    text = f"| {' | '.join(cells)} |"
    if not any(isinstance(cell, Said) for cell in cells):
        return text
    return said("report_row", text, cells=joined(" | ", cells))


def _events(run: dict[str, Any]) -> list[str]:
    told = [_attempt_line(entry) for entry in run["oom"]]
    for entry in run.get("gave_up", []):
        text = f"- given up at {_at(entry)}: {entry['text']}"
        told.append(said("report_gave_up", text, **_place(entry), what=_told(entry, "text")))
    for entry in run["actions"]:
        text = f"- {entry['action']} at {_at(entry)}: {entry['text']}"
        told.append(said("report_action", text, **_place(entry), what=_told(entry, "text")))
    return ["", *told] if told else []


def _attempt_line(entry: dict[str, Any]) -> str:
    where, action = f"- out of memory at {_at(entry)}", _told(entry, "action")
    if entry["attempt"] == 0:  # nobody recovers
        return said("report_oom", f"{where}: {action}", **_place(entry), action=action)
    end, freed = _OUTCOMES[entry["recovered"]], entry["freed_mib"]
    text = f"{where}, attempt {entry['attempt']}: {action}, {tenths(freed):,.1f} MiB freed, {end}"
    return said("report_attempt", text, **_place(entry), attempt=entry["attempt"], action=action,
                freed_mib=freed, end=end)


def _told(entry: dict[str, Any], what: str) -> str:
    return heard(entry[what], entry.get("said", {}))


def _place(entry: dict[str, Any]) -> dict[str, Any]:
    return {"at": f"{entry['at_seconds']:,.1f}", "node": f"#{entry['node_id']}"}


def _at(entry: dict[str, Any]) -> str:
    return "{at} s in {node}".format(**_place(entry))


def _mib_text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"

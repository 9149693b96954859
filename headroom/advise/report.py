"""Advice as the last lines of a Memory Report, and the record of the prompt that it is in."""

import json
from typing import Any

from ..measure.journal import executing_node
from ..record.text import record_text
from ..record.ticker import Steady
from .advisor import Advisor

_steady = Steady("no advice on this prompt; the report has none")
_advisor: Advisor | None = None  # of this server, if one was started


def current_advisor() -> Advisor | None:
    """Return the advisor of this server, who has its recorder; None if none was started."""
    return _advisor


def use_advisor(advisor: Advisor) -> None:
    global _advisor
    _advisor = advisor


def running_record() -> dict[str, Any] | None:
    """Return the record so far of the prompt that this thread executes; None without one."""
    prompt_id, _ = executing_node()
    return None if _advisor is None or prompt_id is None else _advisor.recorder.run(prompt_id)


def report_text(run: dict[str, Any] | None) -> str:
    """Return a run's record as text, and what to change about what has run so far."""
    if run is None or _advisor is None:
        return record_text(run)
    advised = _steady.call(_advisor.lines, run["prompt_id"]) or []
    heading = ["", "What to change:", ""] if advised else []
    return "\n".join([record_text(run), *heading, *advised])


def report_data(run: dict[str, Any] | None) -> str:
    """Return the record as JSON text, the same as from GET /headroom/runs/{prompt_id}."""
    if run is None or _advisor is None:
        return json.dumps(run or {})
    return json.dumps({**run, **_advisor.more_of(run["prompt_id"])})

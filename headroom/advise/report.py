"""Advice as the last lines of a Memory Report."""

from typing import Any

from ..record.text import record_json, record_text
from ..record.ticker import Steady
from .advisor import Advisor

_steady = Steady("no advice on this prompt; the report has none")
_advisor: Advisor | None = None  # of this server, if one was started


def use_advisor(advisor: Advisor) -> None:
    global _advisor
    _advisor = advisor


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
        return record_json(run)
    return record_json({**run, **_advisor.more_of(run["prompt_id"])})

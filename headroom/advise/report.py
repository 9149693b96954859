"""Advice as the last lines of a Memory Report."""

from typing import Any

from ..record.text import record_json, record_text
from ..record.ticker import Steady
from .advisor import current_advisor

_steady = Steady("no advice on this prompt; the report has none")


def report_text(run: dict[str, Any] | None) -> str:
    """Return a run's record as text, and what to change about what has run so far."""
    advisor = current_advisor()
    advised = None if run is None or advisor is None else _steady.call(
        advisor.lines, run["prompt_id"])
    heading = ["", "What to change:", ""] if advised else []
    return "\n".join([record_text(run), *heading, *(advised or [])])


def report_data(run: dict[str, Any] | None) -> str:
    """Return the record as JSON text, the same as from GET /headroom/runs/{prompt_id}."""
    advisor = current_advisor()
    more = advisor.more_of(run["prompt_id"]) if run is not None and advisor is not None else {}
    return record_json({**run, **more} if run is not None else None)

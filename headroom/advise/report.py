"""Advice as the last lines of a Memory Report."""

import logging
from collections.abc import Mapping
from typing import Any

from ..record.text import record_json, record_text
from .advisor import current_advisor

log = logging.getLogger("headroom")


def report_text(run: dict[str, Any] | None) -> str:
    """Return a run's record as text, and what to change about what has run so far."""
    advised = [] if run is None else _lines(run)
    heading = ["", "What to change:", ""] if advised else []
    return "\n".join([record_text(run), *heading, *advised])


def report_data(run: dict[str, Any] | None) -> str:
    """Return the record as JSON text, the same as from GET /headroom/runs/{prompt_id}."""
    advisor = current_advisor()
    more = advisor.more_of(run["prompt_id"]) if run is not None and advisor is not None else {}
    return record_json({**run, **more} if run is not None else None)


def _lines(run: Mapping[str, Any]) -> list[str]:
    advisor = current_advisor()
    if advisor is None:
        return []
    try:
        return advisor.lines(str(run["prompt_id"]))
    except Exception:
        log.exception("[Headroom] no advice on this prompt; the report has none")
        return []

"""Advice as the last lines of a Memory Report."""

import logging
from collections.abc import Mapping
from typing import Any

from ..record.text import record_text
from .advisor import current_advisor

log = logging.getLogger("headroom")


def report_text(run: dict[str, Any] | None) -> str:
    """Return a run's record as text, and what to change about what has run so far."""
    lines = [] if run is None else _lines(run)
    return "\n".join([record_text(run), *(["", "What to change:", "", *lines] if lines else [])])


def _lines(run: Mapping[str, Any]) -> list[str]:
    advisor = current_advisor()
    if advisor is None:
        return []
    try:
        return advisor.lines(str(run["prompt_id"]))
    except Exception:
        log.exception("[Headroom] no advice on this prompt; the report goes on without")
        return []

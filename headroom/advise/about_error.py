"""What to do about the error that ended a run, if the table of errors knows it."""

from typing import Any

from ..base.error_table import row_of
from ..base.said import joined, said
from ..host.adapter import has_flag
from ..record.run import Run
from .finding import Finding, Saves


def about_error(run: Run) -> list[dict[str, Any]]:
    """Return one piece of advice, or none. All other findings are about the GPU's memory."""
    row = None if run.error is None else row_of(run.error.kind, run.error.text)
    if run.error is None or row is None or row.family == "device memory":
        return []
    node_id, what, do = run.error.node_id, row.meaning(), joined("; ", row.advice(has_flag))
    text = said("{what} What helps: {do}.", what=what, do=do)
    finding = Finding("error", Saves(0, 0), {}, {"node_id": node_id},
                      (node_id,) if node_id is not None else ())
    return [{**finding.as_json(text), "id": f"error-{row.id}"}]

"""What Memory Report shows: the record of the prompt that is running now, as text and data."""

import json
from typing import Any

from .measure.journal import executing_node
from .record.text import run_text
from .start import recorder

NOT_RECORDED = "Nothing was recorded: this node needs a ComfyUI server that runs the prompt."


def running_record() -> dict[str, Any] | None:
    """Return the record so far of the prompt that this thread executes, None without one."""
    prompt_id, _ = executing_node()
    found = recorder()
    return found.run(prompt_id) if found is not None and prompt_id is not None else None


def record_text(run: dict[str, Any] | None) -> str:
    return run_text(run) if run is not None else NOT_RECORDED


def record_json(run: dict[str, Any] | None) -> str:
    """Return the record as JSON text; `{}` without one."""
    return json.dumps(run or {})

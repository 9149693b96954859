"""What a server says of an error, and whether memory ran out: by the table that the pack has too.

The door reads it: a machine of a cluster gets this package and nothing else of the repository.
"""

import json
import re
from pathlib import Path
from typing import Any

from .words import Json

TABLE = Path(__file__).resolve().parent.parent / "headroom" / "base" / "errors.json"
# Patterns, the first that is found counts, and whether memory ran out; plain data that travels.
Errors = tuple[tuple[str, bool], ...]


def known_errors() -> Errors:
    """Read the table. What a rerun can help there is what a server with more memory can help."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["errors"]
    return tuple((row["pattern"], row["retry"]) for row in rows)


def is_out_of_memory(failure: Json, errors: Errors) -> bool:
    """Whether the error of a run says that memory ran out."""
    kind = str(failure.get("exception_type", "")).rpartition(".")[2]
    text = f"{kind}: {failure.get('exception_message', '')}"
    return next((ran_out for pattern, ran_out in errors
                 if re.search(pattern, text, re.IGNORECASE)), False)


def failure_of(entry: Json) -> Json:
    """Return what a history entry says of its error; nothing for a success."""
    status = entry.get("status") or {}
    for name, message in status.get("messages", ()):
        if name in ("execution_error", "execution_interrupted"):
            return {"interrupted": name == "execution_interrupted", **message}
    failed = status.get("status_str") == "error"
    return {"exception_message": "the server does not say why"} if failed else {}


def refusal(answer: Any) -> str:
    """Return the server's refusal of a prompt as one text."""
    details = answer if isinstance(answer, dict) else {}
    found = [
        f"node {node_id} ({node.get('class_type')}): {problem.get('message')}: "
        f"{problem.get('details')}"
        for node_id, node in (details.get("node_errors") or {}).items()
        for problem in node.get("errors", ())
    ]
    error = details.get("error")
    words = error.get("message") if isinstance(error, dict) else error
    return "; ".join(found) or str(words or answer)


def strange(server: str, error: Exception) -> str:
    """Say that a server's answer is none of ComfyUI's, and what was stumbled over, in one line."""
    words = " ".join(str(error).split())[:200]
    return f"{server} answered something strange: {type(error).__name__}: {words}"

"""Which errors say that memory ran out: by the table that the node pack has too.

The driver reads it: a machine of a cluster gets this package and nothing else of the repository.
"""

import json
import re
from pathlib import Path

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

"""What errors mean: the rows of `errors.json`, and to which row an error belongs.

To explain one more error, add a row there. The first row counts whose `pattern` (a regular
expression that ignores case) is found in "ErrorClass: text"; `texts` are examples. `do` has names
of entries in the part `do`. An entry with `flags` is advised with the first flag that this ComfyUI
has, and not at all if it has none of them. `retry` is true only if a rerun can help; `why` says so
to a reader. Then add the Chinese sentences to `locales/zh/main.json`, and write the pages:
`python -m tools.error_pages`.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .said import Said, said

Family = Literal[
    "device memory", "RAM", "pinned memory", "page file", "address space", "driver", "compiler",
    "not memory",
]
Where = Literal["device", "RAM"]
MAX_TEXT = 20_000  # is searched: patterns take half a second for each million characters
TABLE = Path(__file__).with_name("errors.json")


@dataclass(frozen=True)
class Help:
    """Something to do. `flags`: ComfyUI's command line flags with this effect, the best first."""

    id: str
    text: str
    flags: tuple[str, ...] = ()

    def said(self, has_flag: Callable[[str], bool]) -> Said | None:
        """Return the sentence; None if it needs a flag that this ComfyUI lacks."""
        if not self.flags:
            return said(self.text)
        flag = next(filter(has_flag, self.flags), None)
        if flag is None:
            return None
        return said(self.text, flag=flag)


@dataclass(frozen=True)
class Row:
    """What is known of one kind of error. `retry`: whether a rerun can help, and `why`."""

    id: str
    family: Family
    pattern: str
    what: Said
    do: tuple[Help, ...]
    retry: bool
    why: Said

    @property
    def where(self) -> Where | None:
        """Which memory must be free before a rerun; None if a rerun cannot help."""
        if not self.retry:
            return None
        return "device" if self.family == "device memory" else "RAM"

    def advice(self, has_flag: Callable[[str], bool], is_guarded: bool = False) -> list[Said]:
        """Return what to do on a ComfyUI with these flags, the most likely to help first.

        If it `is_guarded`, without the advice to add a guard.
        """
        told = (one.said(has_flag) for one in self.do if not (is_guarded and one.id == "guard"))
        return [phrase for phrase in told if phrase is not None]


def _rows(table: dict[str, Any]) -> Iterator[Row]:
    helps = {name: Help(name, one["text"], tuple(one.get("flags", ())))
             for name, one in table["do"].items()}
    for row in table["errors"]:
        yield Row(row["id"], row["family"], row["pattern"], said(row["what"]),
                  tuple(helps[name] for name in row["do"]), row["retry"], said(row["why"]))


ROWS = tuple(_rows(json.loads(TABLE.read_text(encoding="utf-8"))))


def row_of(kind: str, text: str) -> Row | None:
    """Return the row for an error, by the name of its class and its text."""
    told = f"{kind.rpartition('.')[2]}: {text[:MAX_TEXT]}"
    return next((row for row in ROWS if re.search(row.pattern, told, re.IGNORECASE)), None)


def first_line(kind: str, text: str) -> str:
    """Return the first line of an error, with its type: short enough for a log line."""
    lines = text.strip().splitlines()
    return f"{kind.rpartition('.')[2]}: {lines[0] if lines else 'no text'}"[:300]

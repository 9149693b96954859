"""The lines of the tables, from `bench_rows.json`: one declarative table of every benchmark.

There a row says in English and in Chinese (or once for both) what was measured and the figure, as
format strings over the benchmark's result. Beside Python's own they may contain
- `{a/b}` and `{a-b}`, a ratio and a difference of two values; `{list!n}`, how many there are;
- `:MiB` and `:GB/s`, a number of bytes or of bytes a second; `:?yes|no`, words for a bool.
`if` names what a row needs that not every result has. `each` makes a row for each of those keys of
the result (or of the part named by `in`) that are there, `*` for all: `{each}` is the key, `{it}`
its value, `{words}` its words. `joined` puts these into one row.
"""

import json
import re
import string
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Say = Callable[[str, str], str]
Line = tuple[str, str]  # what was measured, and the figure

ROWS: Mapping[str, list[Json]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "/": lambda a, b: a / b, "-": lambda a, b: a - b,
}


def english(text: str, _chinese: str) -> str:
    return text


def chinese(_english: str, text: str) -> str:
    return text


def rows_of(name: str, result: Json, say: Say) -> list[Line]:
    """The lines of one benchmark; none for one that has no line in the tables."""
    prepared = PREPARED.get(name, lambda found: found)(result)
    return [line for row in ROWS.get(name, ()) for line in _lines(row, prepared, say)]


def _lines(row: Json, result: Json, say: Say) -> Iterator[Line]:
    lines = []
    for values in _each(row, result, say):
        if "if" not in row or _has(row["if"], values):
            what, figure = (_Format().vformat(_said(row[part], say), (), values)
                            for part in ("what", "figure"))
            lines.append((what, figure))
    if row.get("joined"):
        return iter([(lines[0][0], ", ".join(figure for _, figure in lines))])
    return iter(lines)


def _said(words: Any, say: Say) -> str:
    return words if isinstance(words, str) else say(*words)


def _each(row: Json, result: Json, say: Say) -> Iterator[Json]:
    """What the strings of a row are about, once for every line of it."""
    if "each" not in row:
        yield result
        return
    part = _Format().value(row["in"], result) if "in" in row else result
    keys = part if row["each"] == "*" else row["each"]
    for key in [key for key in keys if part.get(key) is not None]:
        words = _said(keys[key], say) if keys is row["each"] and isinstance(keys, dict) else key
        yield {**result, "each": key, "it": part[key], "words": words}


def _has(name: str, values: Json) -> bool:
    try:
        return _Format().value(name, values) is not None
    except KeyError:
        return False


class _Format(string.Formatter):
    """Format strings with what the module's docstring adds."""

    def value(self, name: str, values: Mapping[str, Any]) -> Any:
        return self.get_field(name, (), values)[0]

    def get_field(self, name: str, args: Any, values: Mapping[str, Any]) -> tuple[Any, Any]:
        first, *more = re.split("([/-])", name, maxsplit=1)
        if not more:
            return (float(name), name) if name.isdigit() else super().get_field(name, args, values)
        return OPERATIONS[more[0]](self.value(first, values), self.value(more[1], values)), name

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return len(value) if conversion == "n" else super().convert_field(value, conversion)

    def format_field(self, value: Any, spec: str) -> str:
        if spec.startswith("?"):
            return spec[1:].split("|")[not value]
        if spec in UNITS:
            return UNITS[spec](value)
        return str(format(value, spec))


UNITS: dict[str, Callable[[float], str]] = {
    "MiB": lambda nbytes: f"{nbytes / 2**20:,.1f} MiB",
    "GB/s": lambda speed: f"{speed / 1e9:.2f} GB/s",
}


# -- results that are told otherwise than they are recorded -----------------------------------


def _classes(r: Json) -> Json:
    """The needs of each class as text, on the simulated GPU with their ratio."""
    found = {}
    for name, one in r["classes"].items():
        frames = one["picture"][2]
        needs = one.get("smallest_mib") or one["smallest_gib"]
        unit, most = ("MiB", 0) if "smallest_mib" in one else ("GiB", max(r["gib"]))
        found[name] = {
            **one, "frames": (f", {frames} frames", f"，{frames} 帧") if frames > 1 else ("", ""),
            "ratio": [words.format(one["guard_of_stock"]) if "guard_of_stock" in one else ""
                      for words in (" ({:.2f})", "（{:.2f}）")],
            **{way: f"{need:,g} {unit}" if need else f"> {most:g} {unit}"
               for way, need in needs.items()},
        }
    return {"classes": found}


def _recovery(r: Json) -> Json:
    """What each class cost at each share, in one line: the figures have no words."""
    def told(share: Json) -> str:
        runs = share["guarded"]
        later = max(runs[1:], key=lambda one: int(one["failed_calls"]))
        failed = ", ".join(str(one["failed_calls"]) if one["completed"] else "–"
                           for one in (runs[0], later))
        ratio = share.get("of_by_hand")
        cost = f"{ratio['copied_mib']:.2f}, {ratio['launches']:.2f}" if ratio else "–"
        return f"{failed}; {sum(one['futile'] for one in runs)}; {cost}"

    return {"classes": {
        name: " / ".join(f"{percent}: {told(share)}" for percent, share in one["shares"].items())
        for name, one in r["classes"].items()
    }}


PREPARED: dict[str, Callable[[Json], Json]] = {
    "capacity_classes": _classes, "recovery_cost": _recovery,
}

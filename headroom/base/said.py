"""English phrases that also tell their key and figures, for pages that speak other languages.

`Said` is a `str`, so whoever only shows text needs to know nothing of it.
"""

from collections.abc import Iterable
from typing import Any

Value = str | int | float


class Said(str):
    """A phrase in English with the `key` of its sentence elsewhere and the `values` to fill in.

    Values are names, counts, amounts in MiB (`…_mib`), and phrases that are such themselves.
    """

    key: str
    values: dict[str, Any]


def said(key: str, text: str, **values: Value) -> Said:
    """Return `text` as a phrase of this key."""
    return _as_said(text, key, values)


def _as_said(text: str, key: str, values: dict[str, Any]) -> Said:
    phrase = Said(text)
    phrase.key, phrase.values = key, values
    return phrase


def joined(joint: str, phrases: Iterable[str]) -> str:
    """Return the phrases as one, with `joint` between them; one alone stays itself."""
    parts = list(phrases)
    if len(parts) == 1:
        return parts[0]
    return _as_said(joint.join(parts), "joined", {"joint": joint.strip(), "parts": parts})


def lines(phrases: Iterable[str], end: str = "") -> Said:
    """Return the phrases as one text, each on a line of its own; `end` closes all but the last."""
    parts, joint = list(phrases), f"{end}\n"
    return _as_said(joint.join(parts), "joined", {"joint": joint, "parts": parts})


def sentence_of(error: BaseException) -> str:
    """Return the text of an error, as the phrase that it was raised with where that is one."""
    return error.args[0] if error.args and isinstance(error.args[0], Said) else str(error)


def heard(text: str, data: Any) -> str:
    """Return `text` as the phrase that `said_json` made `data` of."""
    if "key" not in data:
        return text
    return _as_said(text, data["key"], data["values"])


def said_json(phrase: Any) -> Any:
    """Return a phrase as data: {"key", "values"}, or {"text"} for one that only English has."""
    if not isinstance(phrase, Said):
        return {"text": str(phrase)}
    return {"key": phrase.key, "values": {name: _value(value)
                                          for name, value in phrase.values.items()}}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [said_json(part) for part in value]
    if isinstance(value, Said):
        return said_json(value)
    return round(value, 3) if isinstance(value, float) else value

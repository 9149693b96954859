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
    phrase = Said(text)
    phrase.key, phrase.values = key, values
    return phrase


def joined(joint: str, phrases: Iterable[str]) -> str:
    """Return the phrases as one, with `joint` between them; one alone stays itself."""
    parts = list(phrases)
    if len(parts) == 1:
        return parts[0]
    phrase = Said(joint.join(parts))
    phrase.key, phrase.values = "joined", {"joint": joint.strip(), "parts": parts}
    return phrase


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

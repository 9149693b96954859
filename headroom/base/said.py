"""English phrases that keep their template and values, for pages in other languages.

`Said` is a `str`, so code that only shows text can ignore the rest. The template is written once,
in the source; `locales/` has its translations under that template.
"""

from collections.abc import Iterable
from typing import Any

from .device import MIB, mib_text

Value = str | int | float


class Said(str):
    """A phrase in English, with its `template` and the `values` that fill it.

    Values are names, counts, amounts in MiB (`…_mib`), and phrases of this class. If they are a
    list, the template joins them.
    """

    template: str
    values: dict[str, Any] | list[str]


def said(template: str, /, **values: Value) -> Said:
    """Return `template` filled with the values; a value named `…_mib` as "1,234.5 MiB"."""
    texts = {name: mib_text(float(value) * MIB) if name.endswith("_mib") else value
             for name, value in values.items()}
    return _phrase(template.format(**texts), template, values)


def joined(joint: str, phrases: Iterable[str]) -> str:
    """Return the phrases as one, with `joint` between them; a single phrase is returned itself."""
    parts = list(phrases)
    return parts[0] if len(parts) == 1 else _phrase(joint.join(parts), joint, parts)


def _phrase(text: str, template: str, values: dict[str, Any] | list[str]) -> Said:
    phrase = Said(text)
    phrase.template, phrase.values = template, values
    return phrase


def sentence_of(error: BaseException) -> str:
    """Return the text of an error; if it was raised with a phrase, that phrase."""
    return error.args[0] if error.args and isinstance(error.args[0], Said) else str(error)


def said_json(phrase: Any) -> Any:
    """Return a phrase as data: {"template", "values"}; a text that is no phrase unchanged."""
    if not isinstance(phrase, Said):
        return round(phrase, 3) if isinstance(phrase, float) else phrase
    values = phrase.values
    if isinstance(values, list):
        return {"template": phrase.template, "values": [said_json(part) for part in values]}
    return {"template": phrase.template,
            "values": {name: said_json(value) for name, value in values.items()}}


class NotKnown(LookupError):
    """Nothing is known under this id; raised with a phrase, so that a page can translate it."""


class Refused(RuntimeError):
    """It cannot be done, or not now; raised with a phrase too."""

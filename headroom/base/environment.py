"""Settings from the server's environment: an invalid value is reported once and then ignored."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .inputs import shown

log = logging.getLogger("headroom")

MAX_DIGITS = 12
ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
MOST_TOLD = 100  # prompts may differ in many ways

_told: set[tuple[str, str]] = set()


def word_of(environment: Mapping[str, str], name: str, words: tuple[str, ...]) -> str | None:
    """Return the word that `name` is set to; None if it is not set, or is none of `words`."""
    value = environment.get(name, "").strip().lower()
    if value in ("", *words):
        return value or None
    ignore(name, value, f"{', '.join(words[:-1])} or {words[-1]}")
    return None


def count_of(environment: Mapping[str, str], name: str, unit: str) -> int | None:
    """Return the whole number that `name` is set to; None if it is not set, or is no number.

    `off` is 0, since other settings have that word.
    """
    value = environment.get(name, "").strip()
    if value.lower() == "off":
        return 0
    if value == "":
        return None
    if value.isascii() and value.isdecimal() and len(value) <= MAX_DIGITS:
        return int(value)
    ignore(name, value, f"a whole number of {unit}")
    return None


def disk_limit_bytes(environment: Mapping[str, str], name: str) -> int:
    """Return how much we may keep on disk by this setting in MiB; 4 GiB if it is not set."""
    given = count_of(environment, name, "MiB")
    return (4096 if given is None else given) << 20


def allocator_words(environment: Mapping[str, str] = os.environ) -> str:
    """Return torch's allocator settings, such as "expandable_segments:true"."""
    words = ",".join(environment.get(name, "") for name in ALLOCATOR_VARIABLES)
    return words.replace(" ", "").lower()


def chosen(browser: Mapping[str, Any], setting: str, most: float) -> float:
    """Return the number that a browser's user has set; 0 if it is not set, or is no number."""
    wish = browser.get(setting, 0)
    is_number = isinstance(wish, (int, float)) and not isinstance(wish, bool)
    return float(wish) if is_number and 0 <= wish <= most else 0.0


def folder_of(environment: Mapping[str, str], name: str) -> Path | None:
    """Return the folder that `name` is set to; None if it is not set, or is no full path."""
    value = environment.get(name, "").strip()
    if value == "":
        return None
    path = Path(os.path.expanduser(value))
    if path.is_absolute() and "\0" not in value:
        return path
    ignore(name, value, "the full path of a folder")
    return None


def ignore(name: str, value: object, expected: str) -> None:
    """Warn once about a value; the next setting in line is used."""
    came = shown(value)
    if is_new(name, came):
        log.warning(
            "[Headroom] expected %s to be %s, but got %s: it is ignored", name, expected, came
        )


def is_new(name: str, value: str) -> bool:
    """Return whether a message is new, so that it is logged once; at most MOST_TOLD are."""
    if (name, value) in _told or len(_told) >= MOST_TOLD:
        return False
    _told.add((name, value))
    return True

"""Check a value that must be one of a few words."""

from typing import Any, get_args

MAX_SHOWN = 60


def expect_choice(node: str, name: str, value: object, options: Any) -> None:
    """Raise ValueError where `value` is none of the words of the Literal `options`.

    A host that does not check them itself (0.3.75) passes on whatever a prompt says, and a word
    misspelt must not do what another word means.
    """
    words = [repr(word) for word in get_args(options)]
    if value not in get_args(options):
        listed = f"{', '.join(words[:-1])} or {words[-1]}"
        raise ValueError(f"{node} expects {name} = {listed}, but got {shown(value)}.")


def shown(value: object) -> str:
    """Return somebody's value as text that stays short, for a sentence about it."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."

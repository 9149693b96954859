"""Check a value that must be one of a few words; an error shows what came instead."""

import reprlib
from typing import Any, get_args

_PLAIN = (bool, float, complex, bytes, type(None))
MAX_BITS = 256


class _Short(reprlib.Repr):
    """Shows plain values, shortened; of all others only the class: their repr may do anything."""

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= MAX_BITS else f"<a number of {x.bit_length():,} bits>"

    def repr_instance(self, x: Any, level: int) -> str:
        if type(x) in _PLAIN:
            return super().repr_instance(x, level)
        return f"<{type(x).__name__}>"


_short = _Short()
_short.maxstring = _short.maxother = 60


def shown(value: object) -> str:
    """Return `value` for an error text: its repr, never much longer than 60 characters.

    Values in prompts and requests can have any size, and the error goes back to the sender.
    """
    return _short.repr(value)


def expect_choice(node: str, name: str, value: object, options: Any) -> None:
    """Raise ValueError if `value` is none of the words of the Literal `options`.

    A ComfyUI that does not check them itself (0.3.75) passes any value on, and a misspelt word must
    not have the effect of another word.
    """
    words = [repr(word) for word in get_args(options)]
    if not issubclass(type(value), str) or value not in get_args(options):
        listed = f"{', '.join(words[:-1])} or {words[-1]}"
        raise ValueError(f"{node} expects {name} = {listed}, but got {shown(value)}.")

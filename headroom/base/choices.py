"""Check a value that must be one of a few words, and show in an error what came instead."""

import reprlib
from typing import Any, get_args

_PLAIN = (bool, float, complex, bytes, type(None))
MAX_BITS = 256


class _Short(reprlib.Repr):
    """Shows plain values cut short, and of all others the class: their own repr may do anything."""

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= MAX_BITS else f"<a number of {x.bit_length():,} bits>"

    def repr_instance(self, x: Any, level: int) -> str:
        if type(x) in _PLAIN:
            return super().repr_instance(x, level)
        return f"<{type(x).__name__}>"


_short = _Short()
_short.maxstring = _short.maxother = 60


def shown(value: object) -> str:
    """Return `value` as an error may quote it: its repr, never much longer than 60 characters.

    What a prompt or a request says can have any size, and comes back to whoever sent it.
    """
    return _short.repr(value)


def expect_choice(node: str, name: str, value: object, options: Any) -> None:
    """Raise ValueError where `value` is none of the words of the Literal `options`.

    A host that does not check them itself (0.3.75) passes on whatever a prompt says, and a word
    misspelt must not do what another word means.
    """
    words = [repr(word) for word in get_args(options)]
    if not issubclass(type(value), str) or value not in get_args(options):
        listed = f"{', '.join(words[:-1])} or {words[-1]}"
        raise ValueError(f"{node} expects {name} = {listed}, but got {shown(value)}.")

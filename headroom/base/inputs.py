"""Check a node's input before anything is done with it; an error shows what came instead.

No ComfyUI checks values on a wire of any type, and the oldest one checks little else.
"""

import inspect
import reprlib
from typing import Any, get_args

import torch

from .said import Said, joined, said

_PLAIN = (bool, float, complex, bytes, type(None))
_MISSING = object()


class _Short(reprlib.Repr):
    """Shows plain values, shortened; of all others only the class: their repr may do anything."""

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
        raise _expected(node, name, joined(" or ", [", ".join(words[:-1]), words[-1]]), value)


def expect_text(node: str, name: str, value: object) -> None:
    if not issubclass(type(value), str):
        raise _expected(node, name, said("text"), value)


def expect_flag(node: str, name: str, value: object) -> None:
    if not issubclass(type(value), int) or value not in (0, 1):
        raise _expected(node, name, said("true or false"), value)


def expect_whole(node: str, name: str, value: object, least: int = 0) -> None:
    is_whole = issubclass(type(value), int) and not issubclass(type(value), bool)
    if not is_whole or value < least:  # type: ignore[operator]
        raise _expected(node, name, said("a whole number of at least {least}", least=least), value)


def expect_list(node: str, name: str, value: object) -> None:
    if not issubclass(type(value), (list, tuple)):
        raise _expected(node, name, said("a list"), value)


def _expected(node: str, name: str, what: str, value: object) -> ValueError:
    return ValueError(said("{node} expects {name} = {what}, but got {given}.", node=node, name=name,
                           what=what, given=shown(value)))


def came(value: object, has_model: bool = True) -> Said:
    """Return in words what came on an input; without `has_model`, that there is no model in it."""
    if value is None:
        return said("nothing")
    name = type(value).__name__
    if name[0] in "aeioAEIO":
        return said("an {kind}" if has_model else "an {kind} without a model in it", kind=name)
    return said("a {kind}" if has_model else "a {kind} without a model in it", kind=name)


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of an object of unknown class; None if it has none.

    A class's own `__getattr__` is not called, except that of a module, which finds its parts:
    ComfyUI's model configurations return None for everything and warn in the user's log. Some
    attributes raise other errors than AttributeError; errors that must not be hidden are raised.
    """
    try:
        kind = type(value)
        answers_itself = hasattr(kind, "__getattr__") and not issubclass(kind, torch.nn.Module)
        if answers_itself and inspect.getattr_static(value, name, _MISSING) is _MISSING:
            return None
        return getattr(value, name, None)
    except torch.cuda.OutOfMemoryError:  # torch.OutOfMemoryError is newer than 2.4
        raise
    except (RuntimeError, LookupError, TypeError, ValueError, OSError, ArithmeticError,
            AssertionError):
        return None

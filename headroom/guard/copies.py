"""Guarded copies of host objects that offer no wrappers: VAE, CLIP, ControlNet, descriptor."""

from typing import Any, TypeVar

from .options import GuardOptions

M = TypeVar("M", bound="Guarded")


class Guarded:
    """The first base of a guarded copy; `guard_options` says what its ladder may do."""

    guard_options: GuardOptions = GuardOptions()


def guarded_copy(value: Any, mixin: type[M], options: GuardOptions) -> Any:
    """Return a shallow copy of `value` whose methods in `mixin` come before its own.

    The copy is of a subclass of the value's class, under the same name: `isinstance`, attributes
    and everything another node does with such an object work as before. Weights and patcher are
    shared, the original is not touched. A guarded value is guarded anew, not twice.
    """
    copy = object.__new__(_guarded_class(plain_class(value), mixin))
    vars(copy).update(vars(value))
    copy.guard_options = options
    return copy


def plain_copy(value: Any, mixin: type[Any]) -> Any:
    """Return a shallow copy of a guarded value with `mixin` in the place of its guard."""
    copy = object.__new__(_guarded_class(plain_class(value), mixin))
    vars(copy).update(vars(value))
    return copy


def plain_class(value: Any) -> type[Any]:
    """Return the class of `value` without a guard."""
    base = type(value)
    return base.__bases__[1] if issubclass(base, Guarded) else base


_classes: dict[tuple[type[Any], type[Any]], Any] = {}


def _guarded_class(base: type[Any], mixin: type[Any]) -> Any:
    """Return the one class of `mixin` before `base`."""
    made = _classes.get((mixin, base))
    if made is None:
        names = {"__module__": base.__module__, "__qualname__": base.__qualname__}
        made = _classes[(mixin, base)] = type(base.__name__, (mixin, base), names)
    return made

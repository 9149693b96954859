"""Guarded copies of ComfyUI's objects that offer no wrappers: VAE, CLIP, upscale model.

Other packs test for the exact class (`type(vae) is VAE`), so a copy has the class of the original.
Its guard consists of callables, which are attributes of the copy. They replace methods of its
class, or what another pack has set there. Each callable belongs to one object, but Python's copying
does not know that: a copied callable would go on with the device and weights of the first object.
So a copy of a guarded object (`copy.copy`, as in Select VAE Device, deepcopy, pickle) has no guard.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

from .call import GuardOptions


class GuardedMethod:
    """Replaces the method `name` of `owner`; `own` is what another pack has set in its place."""

    def __init__(
        self, owner: Any, name: str, own: Callable[..., Any] | None, options: GuardOptions
    ) -> None:
        self.owner = owner
        self.name = name
        self.own = own
        self.options = options

    @property
    def unguarded(self) -> Callable[..., Any]:
        return self.own if self.own is not None else class_method(self.owner, self.name)

    def placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return `args`; if the first argument is in `kwargs` by its name, it is taken from there.
        """
        first = None if args else next(iter(signature(self.unguarded).parameters), None)
        return (kwargs.pop(first),) if first in kwargs else args


class _StateWithoutGuard:
    """The `__getstate__` of a guarded copy: its state for copying and pickling has no guard."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __call__(self) -> Any:
        return plain_copy(self.owner).__reduce_ex__(4)[2]


def guarded_copy(value: Any, methods: dict[str, type[GuardedMethod]], options: GuardOptions) -> Any:
    """Return a shallow copy of `value`, of the same class, with each of `methods` guarded.

    The copy shares weights and patcher with the original, which does not change. On a guarded value
    the new guard replaces the old one.
    """
    copied = plain_copy(value)
    for name, guard in methods.items():
        vars(copied)[name] = guard(copied, name, _own(copied, name), options)
    vars(copied)["__getstate__"] = _StateWithoutGuard(copied)
    return copied


def plain_copy(value: Any) -> Any:
    copied = object.__new__(type(value))
    for name, item in vars(value).items():
        if not isinstance(item, (GuardedMethod, _StateWithoutGuard)):
            vars(copied)[name] = item
        elif (own := getattr(item, "own", None)) is not None:
            vars(copied)[name] = own
    return copied


def class_method(value: Any, name: str) -> Callable[..., Any]:
    """Return a method of the class of `value`, even if the object has its own under that name."""
    method: Callable[..., Any] = getattr(type(value), name).__get__(value)
    return method


def _own(value: Any, name: str) -> Callable[..., Any] | None:
    """Return the attribute that replaces a method of the class, or adds one that it has not."""
    if name in vars(value) or not hasattr(type(value), name):
        found: Callable[..., Any] | None = getattr(value, name, None)
        return found
    return None

"""Guarded copies of host objects that offer no wrappers: VAE, CLIP, upscale model.

Other packs ask for the very class (`type(vae) is VAE`): a copy has the class of what came in. Its
guard are callables set on the copy, before the methods of its class and before what another pack
has set there. Such a callable belongs to one object, and Python's copying does not know that: a
copy of a guarded one (`copy.copy`, as in Select VAE Device, deepcopy, pickle) is made without a
guard, or it would go on with the other's device and weights.
"""

from collections.abc import Callable
from typing import Any

from .options import GuardOptions


class GuardedMethod:
    """Called in the place of `name` of `owner`; `own` is what another pack has set there."""

    def __init__(
        self, owner: Any, name: str, own: Callable[..., Any] | None, options: GuardOptions
    ) -> None:
        self.owner = owner
        self.name = name
        self.own = own
        self.options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    @property
    def unguarded(self) -> Callable[..., Any]:
        """The method as it is without this guard."""
        return self.own if self.own is not None else class_method(self.owner, self.name)


class _StateWithoutGuard:
    """What Python asks an object for in order to copy or pickle it."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __call__(self) -> Any:
        return plain_copy(self.owner).__reduce_ex__(4)[2]


def guarded_copy(value: Any, methods: dict[str, type[GuardedMethod]], options: GuardOptions) -> Any:
    """Return a shallow copy of `value`, of its class, with a guard before each of `methods`.

    Weights and patcher are shared, the original is not touched. A guarded value is guarded anew,
    not twice.
    """
    copied = plain_copy(value)
    for name, guard in methods.items():
        vars(copied)[name] = guard(copied, name, _own(copied, name), options)
    vars(copied)["__getstate__"] = _StateWithoutGuard(copied)
    return copied


def plain_copy(value: Any) -> Any:
    """Return a shallow copy of `value` without a guard."""
    copied = object.__new__(type(value))
    for name, item in vars(value).items():
        if isinstance(item, GuardedMethod):
            item = item.own
        elif isinstance(item, _StateWithoutGuard):
            item = None
        else:
            vars(copied)[name] = item
            continue
        if item is not None:
            vars(copied)[name] = item
    return copied


def class_method(value: Any, name: str) -> Callable[..., Any]:
    """Return a method of the class of `value`, whatever has been set on it under that name."""
    method: Callable[..., Any] = getattr(type(value), name).__get__(value)
    return method


def _own(value: Any, name: str) -> Callable[..., Any] | None:
    """Return what stands before a method of the class, or gives one that the class has not."""
    if name in vars(value) or not hasattr(type(value), name):
        found: Callable[..., Any] | None = getattr(value, name, None)
        return found
    return None

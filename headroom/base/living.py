"""The living objects of some classes, found without references to any other object."""

import gc
from typing import Any


def living(*classes: type) -> list[Any]:
    """Return every object of `classes` and of their subclasses that the collector knows.

    It asks what refers to the classes, because each object refers to its class (CPython 3.9 and
    later). A list of all objects would also work. But while it exists, a tuple that another thread
    is just building has a second owner, and that thread fails with "SystemError: bad argument to
    internal function". It costs one walk over all objects, in C.
    """
    kinds = _with_subclasses(classes)
    return [thing for thing in gc.get_referrers(*kinds) if type(thing) in kinds]


def _with_subclasses(classes: tuple[type, ...]) -> set[type]:
    found: set[type] = set()
    waiting = list(classes)
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += type.__subclasses__(kind)
    return found

"""The living objects of some classes, and those that Python's garbage collector can skip."""

import gc
from typing import Any

import torch

_NO_MODEL_BYTES = 16 << 20  # tables and constants of imported code are far smaller


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


def settle() -> None:
    """Collect garbage, and exclude everything that is alive now from all later collections.

    Call it when a server has imported everything and loaded no model. If a pack has loaded one,
    nothing is excluded: an excluded object is still freed with its last reference, but not if only
    a reference cycle holds it. A collection stops every thread while it walks over all objects. For
    the half million functions, classes and modules of a ComfyUI without other packs that takes
    0.3 s; for later objects some milliseconds. It costs one such collection.
    """
    gc.collect()
    if sum(tensor.numel() * tensor.itemsize for tensor in living(torch.Tensor)) < _NO_MODEL_BYTES:
        gc.freeze()

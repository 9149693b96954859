"""One attempt of a call: its result, or its failure as text and figures."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from ..base.device import clear_workspaces
from ..host.adapter import guard_host, return_cache
from ..measure.snapshot import snapshot
from .errors import CANDIDATES, OomGuardError, is_out_of_memory
from .failure import Failure
from .left_out import LeftOut, watching

T = TypeVar("T")
_active = threading.local()


def is_recovering() -> bool:
    """Return whether a guarded call runs in this thread already: that one handles failures."""
    return bool(getattr(_active, "depth", 0))


@contextmanager
def guarding() -> Iterator[None]:
    _active.depth = getattr(_active, "depth", 0) + 1
    try:
        yield
    finally:
        _active.depth -= 1


class Done(Generic[T]):
    """The result of a call that did not fail; a class of its own because None is a result."""

    def __init__(self, result: T) -> None:
        self.result = result


def try_once(call: Callable[[], T]) -> "Done[T] | Failure":
    """Return the result of a call or its failure; a call that left something out has failed."""
    failed: Exception
    with watching() as left_out:
        try:
            result = call()
        except CANDIDATES as error:
            if isinstance(error, OomGuardError) or not is_out_of_memory(error):
                raise
            failed = error
        else:
            if not left_out:
                return Done(result)
            del result
            failed = LeftOut(left_out[0])
    # What the failed call holds can be freed only here, outside the handler.
    try:
        memory = snapshot()
        gc.collect()  # else garbage would count as memory of the call
        return Failure.of(failed, memory, snapshot(), is_incomplete=bool(left_out))
    finally:
        del failed


def tidy() -> None:
    """Collect garbage and return cached memory to the driver, after a failure and every change.

    cuBLAS's workspaces are freed too: 8 MiB of them keep a whole block of 20 MiB, and the next call
    makes new ones where it finds room.
    """
    guard = guard_host()
    if guard is not None:
        guard.settle_streaming()
    gc.collect()
    clear_workspaces()
    return_cache()

"""Learn what ComfyUI leaves out when memory runs out: it catches the error, logs it and continues.

This happens to parts of a LoRA (every adapter in `comfy/weight_adapter/`) and to what a ControlNet
adds, in 0.3.75 and in 0.33.0. The result is then wrong, and only a line in the log says so. This
module reads that line, which is written while the out-of-memory error is being handled.
"""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..host.adapter import guard_host
from ..measure.journal import executing_node, note_left_out
from .errors import is_out_of_memory

T = TypeVar("T")


class LeftOut(RuntimeError):
    """Memory ran out in a part of the work, and ComfyUI continued without that part."""


class _Listener(logging.Handler):
    """Gives each such line to the innermost watcher of its thread; without one, to the journal."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._watchers = threading.local()
        self._noted: tuple[str | None, str | None] | None = None

    def watchers(self) -> list[list[str]]:
        """The watchers of this thread, the innermost last."""
        found: list[list[str]] | None = getattr(self._watchers, "found", None)
        if found is None:
            found = self._watchers.found = []
            listen()
        return found

    def emit(self, record: logging.LogRecord) -> None:
        error, guard = sys.exc_info()[1], guard_host()
        if error is None or guard is None or not guard.says_left_out(record):
            return
        if not is_out_of_memory(error):
            return
        if watchers := self.watchers():
            watchers[-1].append(record.getMessage())
        else:
            node, noted = executing_node(), self._noted
            self._noted = node
            if node != noted:  # once for a node, not for each of hundreds of weights
                note_left_out(record.getMessage())


_listener = _Listener()


def listen() -> None:
    """Start to read what ComfyUI logs; a second call changes nothing."""
    logging.getLogger().addHandler(_listener)


@contextmanager
def watching() -> Iterator[list[str]]:
    """Collect ComfyUI's messages about what it leaves out in this thread inside the `with` block.

    Of two nested blocks only the inner one collects. It costs a few microseconds.
    """
    watchers = _listener.watchers()
    found: list[str] = []
    watchers.append(found)
    try:
        yield found
    finally:
        watchers.pop()


def complete(call: Callable[[], T]) -> T:
    """Return the result of a call; raise LeftOut if ComfyUI left out a part and nobody sees it.

    An attempt watches its own thread; with several GPUs ComfyUI calls the model in other threads.
    """
    if _listener.watchers():
        return call()
    with watching() as found:
        result = call()
    if found:
        raise LeftOut(found[0])
    return result

"""One attempt of a call: its result, or its failure as text.

What a failed attempt holds in frames, closures and tensors is freed at once.

An exception keeps its frames. A frame keeps its local variables, its function with the closure, and
the frame that called it. So whoever keeps an exception keeps all of these, on the GPU.
"""

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from ..base.device import clear_workspaces
from ..base.error_table import Where, first_line
from ..base.said import said
from ..host.adapter import guard_host, return_cache
from ..measure.snapshot import Snapshot, snapshot
from .errors import (
    CANDIDATES,
    KINDS,
    NotBegunError,
    OomGuardError,
    is_out_of_memory,
    requested_bytes,
    where_of,
)
from .left_out import LeftOut, watching

T = TypeVar("T")
_active = threading.local()


@dataclass(frozen=True)
class Failure:
    """One out-of-memory error as text, and what memory was like while it was raised."""

    kind: type[Exception]  # one of KINDS: another pack's class may refer to anything
    name: str
    message: str
    trace: str
    place: str
    where: Where
    requested_bytes: int | None
    memory: Snapshot | None = None  # while the failed call still held its tensors
    held: Snapshot | None = None  # the same after garbage collection
    at: float = field(default_factory=time.perf_counter)  # seconds, when it was raised
    buffers_bytes: int = 0  # of the buffers that stream weights
    is_incomplete: bool = False  # a weight may have been left without its LoRA
    has_begun: bool = True  # False: ComfyUI expected it to need too much

    @classmethod
    def of(
        cls, error: Exception, memory: Snapshot | None = None, held: Snapshot | None = None,
        is_incomplete: bool = False,
    ) -> "Failure":
        """Describe `error` and free everything that it keeps alive.

        Call it after the `except` block has been left. An error that is being handled then belongs
        to a caller and does not change.
        """
        message, steps = str(error), traceback.extract_tb(error.__traceback__)
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        kind = next((kind for kind in KINDS if isinstance(error, kind)), RuntimeError)
        asked = requested_bytes(message)
        guard = guard_host()
        buffers = guard.streaming.buffers_bytes() if guard is not None else 0
        is_incomplete = is_incomplete or (guard is not None and guard.streaming.has_half_pages())
        has_begun = not isinstance(error, NotBegunError)
        cut_links(error)
        return cls(
            kind, type(error).__name__, message, trace, _place(steps), where_of(error) or "device",
            asked, memory, held, buffers_bytes=buffers, is_incomplete=is_incomplete,
            has_begun=has_begun,
        )

    @property
    def text(self) -> str:
        """The first line of the error, with its type: short enough for a log line."""
        return first_line(self.name, self.message)

    def as_cause(self) -> Exception:
        """Return an error of the same type without frames; its text says where this was raised."""
        words = f"{self.name}: {self.message}" if self.name != self.kind.__name__ else self.message
        came = f"It was raised here:\n{self.trace.rstrip()}"
        cause = self.kind(words)
        add_note = getattr(cause, "add_note", None)
        if add_note is None:  # Python 3.10
            return self.kind(f"{words}\n\n{came}")
        add_note(came)
        return cause


def _place(steps: traceback.StackSummary) -> str:
    """Return the innermost line of a traceback in a few words; empty if there is none."""
    if not steps:
        return ""
    last = steps[-1]
    return said("{function}, line {line} of {file}", function=last.name, line=last.lineno or 0,
                file=Path(last.filename).name)


def cut_links(error: BaseException) -> None:
    """Take the frames and the links to other errors from `error` and from all its causes.

    Others may then keep these errors as long as they like: they keep nothing else alive. An error
    that is being handled around this call does not change, and its causes do not.
    """
    links = _chain(error, keep={id(link) for link in _chain(sys.exc_info()[1])})
    for link in links:
        traceback.clear_frames(link.__traceback__)  # somebody may keep one of them
        link.__traceback__ = link.__cause__ = link.__context__ = None


def _chain(error: BaseException | None, keep: set[int] | None = None) -> list[BaseException]:
    """Return `error`, its causes and the members of groups, each once, except those in `keep`."""
    seen, found, pending = set(keep or ()), [], [error]
    while pending:
        link = pending.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        found.append(link)
        pending += [link.__cause__, link.__context__, *getattr(link, "exceptions", ())]
    return found


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


def attempt_once(call: Callable[[], T]) -> "Done[T] | Failure":
    """Return the result of a call or its failure; a call that left something out has failed."""
    failed: Exception
    with watching() as left_out:
        try:
            result = call()
        except CANDIDATES as error:
            if isinstance(error, OomGuardError) or not (
                    isinstance(error, LeftOut) or is_out_of_memory(error)):
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
        is_incomplete = bool(left_out) or isinstance(failed, LeftOut)
        return Failure.of(failed, memory, snapshot(), is_incomplete)
    finally:
        del failed


def tidy() -> None:
    """Collect garbage and return cached memory to the driver, after a failure and every change.

    cuBLAS's workspaces are freed too: 8 MiB of them keep a whole block of 20 MiB, and the next call
    makes new ones where it finds room.
    """
    guard = guard_host()
    if guard is not None:
        guard.streaming.settle_streaming()
    gc.collect()
    clear_workspaces()
    return_cache()

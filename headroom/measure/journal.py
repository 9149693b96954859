"""What our nodes did and which out-of-memory errors they met, told to whoever listens.

The recorder of runs listens; the nodes do not know it. With no listener a note costs nothing.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..base.said import said
from ..host.adapter import current_host

log = logging.getLogger("headroom")
LEFT_OUT = said(
    "ComfyUI went on without a part of a LoRA or ControlNet, so the result is not what was asked "
    "for; with OOM Guard the call would have been repeated"
)

_OUTCOMES = {None: "trying again", True: "recovered", False: "not enough yet"}


@dataclass(frozen=True)
class Action:
    """One thing a node (or an HTTP call: node_id None) did to memory.

    `freed_mib` None: neither torch nor a driver tells.
    """

    prompt_id: str | None
    node_id: str | None
    action: str
    freed_mib: float | None
    text: str


@dataclass(frozen=True)
class OomAttempt:
    """One rung of the recovery ladder after an out-of-memory error.

    `attempt` 0: nobody recovers, ComfyUI left something out and went on. `recovered` None: the
    call is being tried again; an entry of the same `number` tells how that ended. `at`: seconds of
    `time.perf_counter` when memory ran out.
    """

    prompt_id: str | None
    node_id: str | None
    attempt: int
    action: str
    freed_mib: float
    error: str
    recovered: bool | None
    at: float
    number: int

    @property
    def is_news(self) -> bool:
        """Whether browsers are told: what follows a try that did not help says it anyway."""
        return self.recovered is not False or self.attempt == 0


@dataclass(frozen=True)
class EmbeddingReads:
    """How many prompts a node read from the disk cache, and how many it had to encode."""

    prompt_id: str | None
    node_id: str | None
    read: int
    encoded: int


@dataclass(frozen=True)
class GaveUp:
    """OOM Guard could not help; `text` is the error with which the node ended."""

    prompt_id: str | None
    node_id: str | None
    text: str


Entry = Action | OomAttempt | GaveUp | EmbeddingReads
_numbers = itertools.count(1)
_listeners: list[Callable[[Entry], None]] = []
_lock = threading.Lock()


def listen(listener: Callable[[Entry], None]) -> Callable[[], None]:
    """Call `listener` with every entry from now on, in the thread that notes it.

    Returns a function that ends it. A listener must be quick and must not raise.
    """
    with _lock:
        _listeners.append(listener)

    def stop() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return stop


def executing_node() -> tuple[str | None, str | None]:
    """Return (prompt id, node id) of the node that runs in this thread, Nones outside one."""
    host = current_host()
    if host is None:
        return None, None
    found: tuple[str | None, str | None] = host.executing_node()
    return found


def note_action(action: str, freed_mib: float | None, text: str) -> None:
    """Tell the listeners that the running node did `action`."""
    prompt_id, node_id = executing_node()
    note(Action(prompt_id, node_id, action, freed_mib, text))


def note_embeddings(read: int, encoded: int) -> None:
    """Tell the listeners where the embeddings of the running node came from."""
    prompt_id, node_id = executing_node()
    note(EmbeddingReads(prompt_id, node_id, read, encoded))


def note_oom(
    attempt: int, action: str, freed_mib: float, error: str, recovered: bool | None = None,
    at: float | None = None,
) -> OomAttempt:
    """Tell the listeners, and the log in one line, about one recovery attempt.

    Before the call is tried again; `note_outcome` tells how that ended.
    """
    prompt_id, node_id = executing_node()
    log.warning(
        "[Headroom] out of memory in node %s, attempt %d: %s (%.1f MiB freed, %s)",
        node_id or "-", attempt, action, freed_mib, _OUTCOMES[recovered],
    )
    entry = OomAttempt(
        prompt_id, node_id, attempt, action, freed_mib, error, recovered,
        time.perf_counter() if at is None else at, next(_numbers),
    )
    note(entry)
    return entry


def note_outcome(entry: OomAttempt, recovered: bool) -> None:
    """Tell the listeners and the log how the call ended that was tried again."""
    node = entry.node_id or "-"
    log.warning("[Headroom] node %s, attempt %d: %s", node, entry.attempt, _OUTCOMES[recovered])
    note(replace(entry, recovered=recovered))


def note_gave_up(text: str) -> None:
    """Tell the listeners the words with which OOM Guard gives up."""
    note(GaveUp(*executing_node(), text))


def note_left_out(error: str) -> None:
    """Tell the listeners and the log that ComfyUI went on without something, out of memory."""
    prompt_id, node_id = executing_node()
    log.warning("[Headroom] node %s: %s (%s)", node_id or "-", LEFT_OUT, error)
    now = time.perf_counter()
    note(OomAttempt(prompt_id, node_id, 0, LEFT_OUT, 0.0, error, False, now, next(_numbers)))


def note(entry: Entry) -> None:
    """Tell the listeners."""
    with _lock:
        listeners = list(_listeners)
    for listener in listeners:
        listener(entry)

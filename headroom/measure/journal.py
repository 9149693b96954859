"""What our nodes did, and the out-of-memory errors in them; sent to listeners.

The recorder of runs is a listener; the nodes do not know it. Without listeners notes cost nothing.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..base.said import said
from ..host.adapter import current_host

log = logging.getLogger("headroom")
LEFT_OUT = said(
    "ComfyUI continued without a part of a LoRA or ControlNet, so the result is wrong; OOM Guard "
    "repeats such a call of a sampling or a text encoder"
)

OUTCOMES = {None: "trying again", True: "recovered", False: "not enough yet"}


@dataclass(frozen=True)
class Action:
    """One thing a node (or an HTTP call: node_id None) did to memory.

    `freed_mib` None: neither torch nor a driver can tell.
    """

    prompt_id: str | None
    node_id: str | None
    action: str
    freed_mib: float | None
    text: str


@dataclass(eq=False)
class OomAttempt:
    """One attempt of a recovery after an out-of-memory error.

    `attempt` 0: there was no guard, and ComfyUI continued without a part of the work. `recovered`
    None: the call is being repeated; when that has ended, the same object is noted again. `at`:
    seconds of `time.perf_counter` when memory ran out.
    """

    prompt_id: str | None
    node_id: str | None
    attempt: int
    action: str
    freed_mib: float
    error: str
    recovered: bool | None
    at: float

    @property
    def is_news(self) -> bool:
        """Whether browsers are informed: after a failed attempt the next message says it anyway."""
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
    """OOM Guard could not help; `text` is the error that ended the node."""

    prompt_id: str | None
    node_id: str | None
    text: str


Entry = Action | OomAttempt | GaveUp | EmbeddingReads
_listeners: list[Callable[[Entry], None]] = []


def listen(listener: Callable[[Entry], None]) -> None:
    """Call `listener` with every entry from now on, in the thread that notes it.

    A listener must be quick and must not raise.
    """
    _listeners.append(listener)


def executing_node() -> tuple[str | None, str | None]:
    """Return (prompt id, node id) of the node that runs in this thread; Nones outside one."""
    host = current_host()
    prompt_id, node_id, _ = (None, None, 0) if host is None else host.executing_node()
    return prompt_id, node_id


def note_action(action: str, freed_mib: float | None, text: str) -> None:
    note(Action(*executing_node(), action, freed_mib, text))


def note_embeddings(read: int, encoded: int) -> None:
    note(EmbeddingReads(*executing_node(), read, encoded))


def note_oom(
    attempt: int, action: str, freed_mib: float, error: str, recovered: bool | None = None,
    at: float | None = None,
) -> OomAttempt:
    """Report one recovery attempt to the listeners, and to the log in one line.

    Call it before the call is repeated; `note_outcome` reports how that ended.
    """
    prompt_id, node_id = executing_node()
    log.warning(
        "[Headroom] out of memory in node %s, attempt %d: %s (%.1f MiB freed, %s)",
        node_id or "-", attempt, action, freed_mib, OUTCOMES[recovered],
    )
    entry = OomAttempt(
        prompt_id, node_id, attempt, action, freed_mib, error, recovered,
        time.perf_counter() if at is None else at,
    )
    note(entry)
    return entry


def note_outcome(entry: OomAttempt, recovered: bool) -> None:
    """Report to the listeners and the log how the repeated call ended."""
    node = entry.node_id or "-"
    log.warning("[Headroom] node %s, attempt %d: %s", node, entry.attempt, OUTCOMES[recovered])
    entry.recovered = recovered
    note(entry)


def note_left_out(error: str) -> None:
    """Report, also to the log, that memory ran out and ComfyUI continued without a part."""
    prompt_id, node_id = executing_node()
    log.warning("[Headroom] node %s: %s (%s)", node_id or "-", LEFT_OUT, error)
    note(OomAttempt(prompt_id, node_id, 0, LEFT_OUT, 0.0, error, False, time.perf_counter()))


def note(entry: Entry) -> None:
    for listener in list(_listeners):
        listener(entry)

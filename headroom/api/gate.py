"""Keep memory actions that come over HTTP and prompts apart: one waits for the other."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..base.refusals import Refused

PATIENCE_SECONDS = 600.0


class Busy(Refused):
    """A prompt runs or is queued, so the action was not done."""


class Gate:
    """Lets an action in only while no prompt runs; a prompt that comes meanwhile waits for it.

    The mark is set before the queue is looked at, and every prompt looks at the mark after it has
    left the queue: whichever comes second sees the other.
    """

    def __init__(self, prompts_waiting: Callable[[], bool]) -> None:
        self._prompts_waiting = prompts_waiting
        self._one_action = threading.Lock()
        self._free = threading.Event()
        self._free.set()

    @property
    def acting(self) -> bool:
        """Whether an action is being done now."""
        return not self._free.is_set()

    @contextmanager
    def action(self, executor_idle: Callable[[], bool]) -> Iterator[None]:
        """Hold prompts back for the block; Busy when one runs or waits. Actions follow in turn.

        `executor_idle` may take a moment to find out whether the thread that runs prompts is at
        rest: it also works between prompts, when the queue is empty already.
        """
        with self._one_action:
            self._free.clear()
            try:
                if self._prompts_waiting() or not executor_idle():
                    raise Busy(
                        "A prompt is running or queued, and memory must not move under it: "
                        "try again when the queue is empty, or interrupt the prompt first."
                    )
                yield
            finally:
                self._free.set()

    def wait_for_action(self) -> None:
        """Called by a prompt before its first node: wait until the action in progress is done."""
        self._free.wait(PATIENCE_SECONDS)

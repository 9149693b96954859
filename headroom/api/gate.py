"""Keep memory actions over HTTP and prompts apart: one waits for the other."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..base.said import Refused, said

log = logging.getLogger("headroom")

T = TypeVar("T")

PATIENCE_SECONDS = 60.0


BUSY = said(
    "A prompt is running or queued, and its models must not be moved: "
    "try again when the queue is empty, or interrupt the prompt first."
)


class Gate:
    """Lets one action run at a time, only while no prompt runs; a prompt waits until it ends.

    An action sets a mark before it checks the queue, and every prompt checks the mark after it has
    left the queue: whichever comes second sees the other. Actions wait as coroutines, which costs
    the server no thread; the one that acts has a thread of the gate's own.

    `executor_idle` may take a moment to find out whether the thread that runs prompts is idle: it
    also works between prompts, when the queue is empty already. What else must not run beside an
    action takes `turn`, which comes to those that wait in their order.
    """

    def __init__(
        self, prompts_waiting: Callable[[], bool], executor_idle: Callable[[], bool]
    ) -> None:
        self._prompts_waiting = prompts_waiting
        self._executor_idle = executor_idle
        self.turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "headroom action")
        self._free = threading.Event()
        self._free.set()

    async def act(self, action: Callable[[], T]) -> T:
        """Do `action` in a thread while no prompt and no other action runs; return its result.

        Raises Refused if a prompt runs or waits, and the errors of `action`. The action is done
        also if nobody waits for its result any more.
        """
        if self._prompts_waiting():
            raise Refused(BUSY)
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(action)))

    def wait_for_action(self) -> None:
        """Called by a prompt before its first node: wait until the action in progress is done.

        There is no time limit: else the prompt would use models that are being moved.
        """
        while not self._free.wait(PATIENCE_SECONDS):
            log.warning(
                "[Headroom] a prompt has been waiting for %g s for a memory action that came over "
                "HTTP; it begins when that is done", PATIENCE_SECONDS,
            )

    async def _in_turn(self, action: Callable[[], T]) -> T:
        async with self.turn:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._alone, action)

    def _alone(self, action: Callable[[], T]) -> T:
        self._free.clear()
        try:
            if self._prompts_waiting() or not self._executor_idle():
                raise Refused(BUSY)
            return action()
        finally:
            self._free.set()

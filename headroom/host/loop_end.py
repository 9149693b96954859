"""Learn when an event loop ends: ComfyUI runs each prompt in one of its own."""

import asyncio
from collections.abc import Callable
from typing import Any


class LoopEnd:
    """Calls `call` in the loop's thread when the loop that was watched last ends.

    `asyncio.run` cancels what is left in its loop as it ends, so a task that only waits tells it.
    The loop itself holds tasks weakly: held by nobody else, the collector takes such a task away.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> bool:
        """Watch the loop that runs in this thread, in the place of any other; False without one."""
        self._let_go()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        self._task = loop.create_task(_until_cancelled())
        self._task.add_done_callback(self._ended)
        return True

    def _ended(self, _task: Any) -> None:
        self._task = None
        self._call()

    def _let_go(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.remove_done_callback(self._ended)
            task.get_loop().call_soon_threadsafe(task.cancel)


async def _until_cancelled() -> None:
    await asyncio.get_running_loop().create_future()

"""A thread that calls a function regularly while a prompt runs, and sleeps while none does."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger("headroom")

TICK_SECONDS = 0.05
Result = TypeVar("Result")


class Steady:
    """Calls functions whose errors must not end the caller; of errors in a row the first is logged.

    A file that cannot be opened now, or no memory for a moment, says nothing about the next call.
    """

    def __init__(self, failed: str) -> None:
        self._failed = failed
        self._has_failed = False

    def call(self, work: Callable[..., Result], *given: object) -> Result | None:
        """Return the result; None after an error."""
        try:
            result = work(*given)
            self._has_failed = False
            return result
        except Exception:
            if not self._has_failed:
                log.exception("[Headroom] %s", self._failed)
            self._has_failed = True
            return None


class Ticker:
    """Calls `look` every `seconds` between `wake` and `rest`, in a thread of its own.

    An error in `look` is logged and the thread continues. While it sleeps it waits without timeout.
    """

    def __init__(
        self, look: Callable[[], None], name: str = "headroom recorder",
        seconds: float = TICK_SECONDS,
    ) -> None:
        self._look, self._name, self._seconds = look, name, seconds
        self._awake = threading.Event()
        self._pause = threading.Event()  # never set

    def start(self) -> None:
        threading.Thread(target=self._tick, name=self._name, daemon=True).start()

    def wake(self) -> None:
        self._awake.set()

    def rest(self) -> None:
        self._awake.clear()

    def _tick(self) -> None:
        steady = Steady("reading memory for the record of this prompt failed")
        while True:
            self._awake.wait()
            while self._awake.is_set():
                self._pause.wait(self._seconds)
                steady.call(self._look)

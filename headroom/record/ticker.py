"""A thread that looks 20 times a second while a prompt runs, and sleeps while none does."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("headroom")

TICK_SECONDS = 0.05


class Ticker:
    """Calls `look` in a thread of its own between `wake` and `rest`.

    An error in it is logged and ends nothing; asleep it waits without a timeout.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._awake = threading.Event()
        self._pause = threading.Event()  # never set

    def start(self) -> None:
        threading.Thread(target=self._tick, name="headroom recorder", daemon=True).start()

    def wake(self) -> None:
        self._awake.set()

    def rest(self) -> None:
        self._awake.clear()

    @property
    def is_awake(self) -> bool:
        return self._awake.is_set()

    def _tick(self) -> None:
        while True:
            self._awake.wait()
            while self._awake.is_set():
                self._pause.wait(TICK_SECONDS)
                try:
                    self._look()
                except Exception:
                    log.exception("[Headroom] reading memory for the record of this prompt failed")

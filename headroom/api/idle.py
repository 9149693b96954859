"""Unload the models after some minutes without a prompt, but never while something runs."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..actions.purge import purge
from ..base.environment import chosen, count_of
from ..base.said import Refused
from ..measure.report import Report
from ..models.loaded import loaded_models
from ..record.ticker import Steady
from .gate import Gate

log = logging.getLogger("headroom")

VARIABLE = "HEADROOM_IDLE_MINUTES"
SETTING = "Headroom.Server.IdleMinutes"
MAX_MINUTES = 7 * 24 * 60


class Idle:
    """Waits in a thread of its own, and unloads models through the gate, as HTTP does.

    The minutes from the environment have priority over the setting of the browser's user, which
    comes with each prompt; 0 means never.
    """

    def __init__(
        self, gate: Gate, loop: asyncio.AbstractEventLoop,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = gate
        self._loop = loop
        self._of_server = count_of(environment, VARIABLE, "minutes (0: never)")
        self._of_browser = 0.0
        self._clock = clock
        self._last: float | None = None  # nothing can be loaded before the first prompt
        self._changed = threading.Event()

    @property
    def minutes(self) -> float:
        """The minutes after which models are unloaded; 0: never."""
        return self._of_browser if self._of_server is None else float(self._of_server)

    def prompt_is_posted(self, browser: Mapping[str, Any]) -> None:
        """A prompt comes from a user with these browser settings."""
        self._of_browser = chosen(browser, SETTING, MAX_MINUTES)
        self.something_happens()

    def something_happens(self) -> None:
        """A prompt begins or ends, or an action over HTTP: count from now on."""
        self._last = self._clock()
        self._changed.set()

    def seconds_left(self) -> float | None:
        """Return the seconds until models are unloaded (0: now); None while none are to be."""
        if self._last is None or self.minutes <= 0:
            return None
        return max(0.0, self._last + 60 * self.minutes - self._clock())

    def start(self) -> None:
        """Start to wait; the thread sleeps without a timeout while nothing is due."""
        threading.Thread(target=self._wait, name="headroom idle", daemon=True).start()

    def _wait(self) -> None:
        steady = Steady("models could not be unloaded after the idle time")
        while True:
            left = self.seconds_left()
            if left is None or left > 0:
                self._changed.wait(left)
                self._changed.clear()
            else:
                done = asyncio.run_coroutine_threadsafe(self.release(), self._loop)
                steady.call(done.result)

    async def release(self) -> None:
        """Unload every model if nothing runs; if something runs, count from the beginning."""
        self._last = None  # nothing is due before something happens again
        try:
            report = await self._gate.act(_unload)
        except Refused:
            self.something_happens()
            return
        if report is not None:
            unit = "minute" if self.minutes == 1 else "minutes"
            log.info("[Headroom] no prompt for %g %s: %s", self.minutes, unit, report.headline)


def _unload() -> Report | None:
    if not loaded_models():
        return None
    with torch.inference_mode():
        return purge("all models")

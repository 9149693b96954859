"""Unload the models after some minutes without a prompt, but never while something runs."""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any

import torch

from ..actions.purge import purge
from ..base.environment import chosen, count_of
from ..base.said import Refused
from ..measure.report import Report
from ..models.loaded import loaded_models
from .gate import Gate

log = logging.getLogger("headroom")

VARIABLE = "HEADROOM_IDLE_MINUTES"
SETTING = "Headroom.Server.IdleMinutes"
MAX_MINUTES = 7 * 24 * 60


class Idle:
    """Unloads models through the gate, as HTTP does, after a timer of the server's event loop.

    The minutes from the environment have priority over the setting of the browser's user, which
    comes with each prompt; 0 means never.
    """

    def __init__(
        self, gate: Gate, loop: asyncio.AbstractEventLoop,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._gate = gate
        self._loop = loop
        self._of_server = count_of(environment, VARIABLE, "minutes (0: never)")
        self._of_browser = 0.0
        self._timer: asyncio.TimerHandle | None = None  # nothing is loaded before the first prompt
        self._work: asyncio.Task[None] | None = None

    @property
    def minutes(self) -> float:
        """The minutes after which models are unloaded; 0: never."""
        return self._of_browser if self._of_server is None else float(self._of_server)

    def prompt_is_posted(self, browser: Mapping[str, Any]) -> None:
        """A prompt comes from a user with these browser settings."""
        self._of_browser = chosen(browser, SETTING, MAX_MINUTES)
        self.something_happens()

    def something_happens(self) -> None:
        """A prompt begins or ends (in any thread): count from now on."""
        if not self._loop.is_closed():  # the server ends while a prompt still runs
            self._loop.call_soon_threadsafe(self._count)

    def _count(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self.minutes > 0:
            self._timer = self._loop.call_later(60 * self.minutes, self._is_due)

    def _is_due(self) -> None:
        self._work = self._loop.create_task(self._release())

    async def _release(self) -> None:
        """Unload every model if nothing runs; if something runs, count from the beginning."""
        try:
            report = await self._gate.act(_unload)
        except Refused:
            self._count()
        except Exception:
            log.exception("[Headroom] models could not be unloaded after the idle time")
        else:
            if report is not None:
                unit = "minute" if self.minutes == 1 else "minutes"
                log.info("[Headroom] no prompt for %g %s: %s", self.minutes, unit, report.headline)


def _unload() -> Report | None:
    if not loaded_models():
        return None
    with torch.inference_mode():
        return purge("all models")

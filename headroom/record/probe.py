"""Measure memory for the recorder: every device that models may go to, and this process's RAM."""

import logging
import time
from collections.abc import Callable

import torch

from ..base import device as devices
from ..host.borrowed import borrowed
from ..host.types import Held
from ..measure.snapshot import measure_device, rss_bytes, used_devices
from .memory import Reading, Use

log = logging.getLogger("headroom")


class Probe:
    """Reads memory at once, whenever it is asked.

    Costs 45 microseconds with one CUDA device, 2 on the CPU (benchmarks/recorder_overhead.py).
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter,
        held: Callable[[], tuple[Held, ...]] = tuple,
    ) -> None:
        self._clock = clock
        self._held = held
        self._devices: list[torch.device] = []
        self._has_failed = False
        self._last: Reading | None = None

    def begin_run(self) -> tuple[str, ...]:
        """Look up the devices that this run's models may go to; none on a CPU server."""
        self._devices = used_devices()
        self._has_failed = False
        self._last = None
        return tuple(str(device) for device in self._devices)

    def measured(self, max_age_seconds: float = 0.0) -> Reading:
        """Measure now, or take the last figures again where they are not older than this.

        What cannot be read is unknown: an error must not end the prompt.
        """
        at, last = self._clock(), self._last
        if last is not None and at - last.at < max_age_seconds:
            return last._replace(at=at)
        self._last = self._read(at)
        return self._last

    def at_node(self, max_age_seconds: float = 0.0) -> Reading:
        """Measure as `measured` does, and say which models are held, 2 microseconds for each.

        In the executor's thread: that is where models are loaded and unloaded.
        """
        borrowed.let_go()
        found = self.measured(max_age_seconds)
        if self._devices and not found.models:
            self._last = found = found._replace(models=self._models())
        return found

    def _models(self) -> tuple[Held, ...]:
        try:
            return self._held()
        except Exception:
            if not self._has_failed:
                log.exception("[Headroom] reading what is loaded failed; the prompt goes on")
            self._has_failed = True
            return ()

    def _read(self, at: float) -> Reading:
        try:
            return Reading(at, rss_bytes(), tuple(_use(device) for device in self._devices))
        except Exception:
            if not self._has_failed:
                log.exception("[Headroom] reading memory failed; the prompt goes on")
            self._has_failed = True
            return Reading(at, None, tuple(Use() for _ in self._devices))


def _use(device: torch.device) -> Use:
    """Read one device; nothing is known of one that this process does not use."""
    driver, counts = devices.driver_memory(device), devices.torch_reserve(device)
    if counts is None:
        return Use() if driver is None else Use(driver[1] - driver[0], total_bytes=driver[1])
    if driver is None:
        return Use(measure_device(device).held_bytes, *counts[:3], None, *counts[3:])
    return Use(driver[1] - driver[0], *counts[:3], driver[1], *counts[3:])

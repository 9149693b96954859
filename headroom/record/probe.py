"""Measure memory for the recorder: every device that models may go to, and this process's RAM."""

import logging
import time
from collections.abc import Callable

import torch

from ..base import device as devices
from ..measure.snapshot import measure_device, rss_bytes, used_devices
from .memory import Reading, Use

log = logging.getLogger("headroom")


class Probe:
    """Reads memory at once, whenever it is asked. (benchmarks/recorder_overhead.py: its cost.)"""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._devices: list[torch.device] = []
        self._has_failed = False

    def begin_run(self) -> tuple[str, ...]:
        """Look up the devices that this run's models may go to; none on a CPU server."""
        self._devices = used_devices()
        self._has_failed = False
        return tuple(str(device) for device in self._devices)

    def measured(self) -> Reading:
        """Measure now. What cannot be read is unknown: an error must not end the prompt."""
        at = self._clock()
        try:
            return Reading(at, rss_bytes(), tuple(_use(device) for device in self._devices))
        except Exception:
            if not self._has_failed:
                log.exception("[Headroom] reading memory failed; the prompt goes on")
            self._has_failed = True
            return Reading(at, None, tuple(Use() for _ in self._devices))


def _use(device: torch.device) -> Use:
    """Read one device; nothing is known of one that this process does not use."""
    reserve = devices.torch_reserve(device)
    if reserve is None:
        return Use()
    driver = devices.driver_memory(device)
    if driver is None:
        return Use(measure_device(device).held_bytes, *reserve)
    return Use(driver[1] - driver[0], *reserve, driver[1])

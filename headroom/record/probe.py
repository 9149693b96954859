"""Measure memory for the recorder: every device that models may use, and this process's RAM."""

import time
from collections.abc import Callable

import torch

from ..base import device as devices
from ..host.borrowed import borrowed
from ..host.types import Held
from ..measure.snapshot import measure_device, rss_bytes, used_devices
from ..measure.strain import Strain
from .memory import Reading, Use
from .ticker import TICK_SECONDS, Steady

QUICK_SECONDS, IN_A_ROW, CROWD_SECONDS = 0.04, 3, 0.1
TRIES = 4


class Probe:
    """Reads memory for one thread at a time. `held` returns which models are on the devices.

    A node that takes QUICK_SECONDS is measured. A reading takes 50 microseconds, 200 with a GPU, as
    long as a node that does nothing (benchmarks/recorder_overhead.py). So of quicker nodes the
    first IN_A_ROW in a row are measured, then one in CROWD_SECONDS. Swap, disk reads and spilled
    VRAM are read while a node runs, not between two.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter,
        held: Callable[[], list[Held]] = list,
        strain: Callable[[], Strain | None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._held = held
        self._strain = strain
        self._devices: list[torch.device] = []
        self._reading = Steady("reading memory failed; the prompt goes on")
        self._models = Steady("reading what is loaded failed; the prompt goes on")
        self._last: Reading | None = None
        self._told_at = 0.0  # when a node last began or ended
        self._in_a_row = 0  # quick nodes that were measured
        self._crowd_until = 0.0  # until then one reading serves for all quick nodes

    def begin_run(self) -> tuple[str, ...]:
        """Look up the devices that this run's models may use; none on a CPU server."""
        self._devices = used_devices()
        self._last = None
        self._told_at = 0.0  # quick nodes of the last run do not count in this one
        return tuple(str(device) for device in self._devices)

    def beside_node(self) -> Reading:
        """Measure memory, swap and disk reads while a node runs, in any thread.

        If the reading of a node is new enough for at_node, it is used again.
        """
        at, last = self._clock(), self._last
        if last is not None and (self._is_crowd(at) or 0 <= at - last.at < TICK_SECONDS):
            return last
        return self.measured(strain=self._strain)

    def in_crowd(self, at: float) -> Reading | None:
        """Return the reading that serves for a quick node after too many; None: it is measured.

        Call it at each begin and end of a node, in the executor's thread.
        """
        if not self._is_crowd(at) or borrowed.kept:
            return None
        self._told_at = at
        return self._last

    def _is_crowd(self, at: float) -> bool:
        return at < self._crowd_until and 0 <= at - self._told_at < QUICK_SECONDS

    def at_node(self, begins: bool = False) -> tuple[float, Reading]:
        """Return the time and the memory at the begin or end of a node; this resets torch's peaks.

        A node that begins uses the last reading if that is not older than TICK_SECONDS; after too
        many quick nodes every node does. Call it in the executor's thread: there models are loaded
        and unloaded.
        """
        borrowed.drop_all()
        at = self._clock()
        if (serves := self.in_crowd(at)) is not None:
            return at, serves
        if not 0 <= at - self._told_at < QUICK_SECONDS:
            self._in_a_row, self._crowd_until = -1, 0.0
        self._told_at, last = at, self._last
        if begins and last is not None and 0 <= at - last.at < TICK_SECONDS:
            return at, last
        self._in_a_row += 1
        found = self.measured(begins_again=True)
        if self._devices:
            models = tuple(one for one in self._models.call(self._held) or () if one.bytes)
            # Equal ones are one object, which the records of many nodes share.
            found = found._replace(
                models=last.models if last is not None and last.models == models else models)
        self._last = found
        if self._in_a_row >= IN_A_ROW:
            self._crowd_until = found.at + CROWD_SECONDS
        return found.at, found

    def measured(
        self, begins_again: bool = False, strain: Callable[[], Strain | None] = lambda: None
    ) -> Reading:
        """Measure now, in any thread. What cannot be read is unknown: no error ends the prompt."""
        at = self._clock()
        found = self._reading.call(self._read, at, begins_again, strain)
        return found or Reading(at, None, tuple(Use() for _ in self._devices))

    def _read(self, at: float, begins_again: bool, strain: Callable[[], Strain | None]) -> Reading:
        uses = tuple(_use(device, begins_again) for device in self._devices)
        return Reading(at, rss_bytes(), uses, strain=strain())


def _use(device: torch.device, begins_again: bool) -> Use:
    """Read one device; a device that this process does not use is unknown."""
    reserve, driver = devices.torch_reserve(device), devices.driver_memory(device)
    # While a node runs, memory that torch returns between the two readings would look like others'.
    for _ in range(0 if begins_again else TRIES):
        before, reserve = reserve, devices.torch_reserve(device)
        if before is None or reserve is None or before[:2] == reserve[:2]:
            break
        driver = devices.driver_memory(device)
    if reserve is None:
        return Use() if driver is None else Use(driver[1] - driver[0], total_bytes=driver[1])
    begins_again = begins_again and devices.begin_peak_again(device)
    used = measure_device(device).held_bytes if driver is None else driver[1] - driver[0]
    return Use(used, reserve.current_bytes, reserve.peak_bytes, driver[1] if driver else None,
               reserve.allocated_bytes, begins_again)

"""Read VRAM in use and RSS as cheaply as the system allows: the recorder asks at every node."""

import ctypes
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import torch

from ..base import device as devices
from ..host.types import NodeCallback
from ..measure.snapshot import measure_device, rss_bytes, used_devices
from .nodes import Reading
from .run import Place

log = logging.getLogger("headroom")

T = TypeVar("T")

SHORT_SECONDS = 0.005
CREDIT_SECONDS = 0.0001
MAX_CREDIT_SECONDS = 0.005
SHARE = 0.0005
RETRY_SECONDS = 1.0


class Probe:
    """Measures the device that models run on, at every node as long as that costs next to nothing.

    What takes more than 5 ms is always measured as it ends, and what follows it as it begins.
    For shorter nodes measuring may cost a two-thousandth of the time that passes, with a small
    credit to begin with; in a graph of hundreds of trivial nodes that runs out, and the last
    figures are used again. (The recorder's thread measures too, so they are never older than its
    tick.)
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._read_rss = rss_reader()
        self._credit = CREDIT_SECONDS
        self._device: torch.device | None = None
        self._places: dict[torch.device, Place] = {}
        self._peak_reserve: int | None = None
        self._last = Reading(clock(), None, 0)
        self._asked = float("-inf")
        self._good_until = float("-inf")

    def begin_run(self) -> Place:
        """Look up the device that this run's models go to."""
        self._device = next(iter(used_devices()), None)
        self._peak_reserve = _reserve(self._device)[1]
        self._credit = CREDIT_SECONDS
        self._good_until = float("-inf")
        if self._device is None:
            return Place("cpu")
        if self._device not in self._places:
            self._places[self._device] = _place(self._device)
        return self._places[self._device]

    def teller(
        self, tell: Callable[[tuple[T, str, str, float, Reading]], None], what: T
    ) -> NodeCallback:
        """Return what the executor calls when something has happened to a node.

        It tells `(what, node_id, prompt_id, time, memory)`: the time exact, memory as it is now or
        was when last measured (see class). One function, because that is called twice for every
        node and a further call in it costs as much as all the rest.
        """
        clock = self._clock

        def told(node_id: str, _state: Any, prompt_id: str) -> None:
            now = clock()
            if now > self._good_until or now - self._asked > SHORT_SECONDS:
                self._renew()
            self._asked = now
            tell((what, node_id, prompt_id, now, self._last))

        return told

    def expire(self) -> None:
        """Memory has just been moved: measure at the next chance."""
        self._credit = max(self._credit, MAX_CREDIT_SECONDS)
        self._good_until = float("-inf")

    def measured(self) -> Reading:
        """Measure now, whatever it costs."""
        start, before = self._clock(), self._last.at
        used = self._used() if self._device is not None else None
        peak = self._new_peak(used) if used is not None else None
        self._last = Reading(start, used, self._read_rss(), peak, before)
        earned = (start - before) * SHARE - (self._clock() - start)
        self._credit = min(self._credit + earned, MAX_CREDIT_SECONDS)
        return self._last

    def _renew(self) -> None:
        """Measure, and say for how long short nodes go without: until that is earned again."""
        try:
            last = self.measured()
        except Exception:  # an error of ours must not end the prompt that is watched
            log.exception("[Headroom] reading memory failed; the prompt goes on")
            self._good_until = self._clock() + RETRY_SECONDS
            return
        self._good_until = last.at + max(-self._credit / SHARE, 0.0)

    def _used(self) -> int | None:
        assert self._device is not None
        driver = devices.driver_memory(self._device)
        if driver is not None:
            return driver[1] - driver[0]
        return measure_device(self._device).used_bytes

    def _new_peak(self, used: int) -> int | None:
        """Return the device's use at a peak that torch saw since the reading before, else None.

        torch keeps the largest reserve since the process began (or since somebody reset it: never
        this package). Where it has grown, the new maximum lay between two readings.
        """
        reserve = _reserve(self._device)
        earlier, self._peak_reserve = self._peak_reserve, reserve[1]
        if earlier is None or reserve[1] is None or reserve[1] <= earlier:
            return None
        return used - reserve[0] + reserve[1]


def _reserve(device: torch.device | None) -> tuple[int, int | None]:
    """Return torch's reserved bytes on `device` now and at their peak, None where not told."""
    module: Any = devices.backend(device) if device is not None else None
    nested = getattr(module, "memory_stats_as_nested_dict", None)
    # The flat `memory_stats` sorts some hundred names first and takes five times as long.
    found = nested(device).get("reserved_bytes") if nested is not None else None
    if found:
        return int(found["all"]["current"]), int(found["all"]["peak"])
    query = getattr(module, "max_memory_reserved", None)
    if query is None:
        return 0, None
    return int(module.memory_reserved(device)), int(query(device))


def _place(device: torch.device) -> Place:
    found = measure_device(device)
    tells = found.driver_free_bytes is not None
    return Place(str(device), found.total_bytes, "driver" if tells else "torch")


@lru_cache(maxsize=1)
def rss_reader() -> Callable[[], int]:
    """Return the quickest way to this process's RSS: on Linux one read of an open file.

    The read keeps the interpreter's lock. Given away, even for a microsecond, another thread takes
    it (ComfyUI's server has messages to send after every node) and hands it back only when it
    waits: on a virtual machine with two cores, one such read for each node made trivial nodes 9 %
    longer, and this one 3 %.
    """
    if sys.platform != "linux":
        return rss_bytes
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return rss_bytes
    pread = ctypes.PyDLL(None).pread
    pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ssize_t)
    page = os.sysconf("SC_PAGE_SIZE")
    text = ctypes.create_string_buffer(128)

    def read() -> int:
        if pread(file, text, 127, 0) <= 0:
            return rss_bytes()
        return int(text.value.split()[1]) * page

    return read

"""This process's shared GPU memory: into it, Windows moves VRAM of a full card without an error.

NEVER RUN ON WINDOWS: the functions on samples are tested with samples as in Windows' documentation;
the calls of pdh.dll are not tested. On Linux nothing spills, and nothing is measured.

Windows also counts pinned RAM as shared GPU memory, and a little is always there. So the bytes that
ComfyUI has pinned are subtracted, and so is the smallest value ever seen.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

COUNTER = r"\GPU Process Memory(*)\Shared Usage"
EACH_SECONDS = 1.0
_LARGE, _MORE_DATA = 0x400, 0x800007D2  # PDH_FMT_LARGE, PDH_MORE_DATA (pdh.h, pdhmsg.h)
Samples = Mapping[str, int]


def shared_bytes(samples: Samples, process: int) -> int | None:
    """Return the sum of one process over all adapters; None if the samples have nothing of it.

    samples: bytes by the name of an instance, "pid_1234_luid_0x00000000_0x0000D3A2_phys_0".
    """
    own = [amount for name, amount in samples.items() if name.startswith(f"pid_{process}_")]
    return sum(own) if own else None


class Spill:
    """How much has spilled, measured at most once in EACH_SECONDS: a query takes milliseconds.

    `samples()` reads the counter and returns None if it cannot; `pinned()` returns the bytes of
    pinned RAM.
    """

    def __init__(
        self, samples: Callable[[], Samples | None], pinned: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic, process: int | None = None,
    ) -> None:
        self._samples, self._pinned, self._clock = samples, pinned, clock
        self._process = os.getpid() if process is None else process
        self._least: int | None = None
        self._due = 0.0

    def bytes_now(self) -> int | None:
        """Return the bytes; None if they are not known, or were measured a moment ago."""
        now = self._clock()
        if now < self._due:
            return None
        self._due = now + EACH_SECONDS
        found = shared_bytes(self._samples() or {}, self._process)
        if found is None:
            return None
        beside = max(0, found - self._pinned())
        self._least = beside if self._least is None else min(self._least, beside)
        return beside - self._least


def counter_of_windows() -> Callable[[], Samples | None]:
    """Return the function that reads the counter; None if there is none, as on other systems."""
    if sys.platform != "win32":
        return lambda: None
    try:
        return _Counter(ctypes.WinDLL("pdh")).read
    except OSError:
        return lambda: None


class _Value(ctypes.Structure):  # PDH_FMT_COUNTERVALUE, only its large integer is used
    _fields_ = [("status", ctypes.c_uint32), ("large", ctypes.c_int64)]


class _Item(ctypes.Structure):  # PDH_FMT_COUNTERVALUE_ITEM_W
    _fields_ = [("name", ctypes.c_wchar_p), ("value", _Value)]


class _Counter:
    """One query of pdh.dll, open while the server runs. Never run on Windows.

    Raises OSError if Windows does not have the counter.
    """

    def __init__(self, pdh: Any) -> None:
        self._pdh, self._query = pdh, ctypes.c_void_p()
        self._counter = ctypes.c_void_p()
        if pdh.PdhOpenQueryW(None, ctypes.c_size_t(0), ctypes.byref(self._query)) or (
                pdh.PdhAddEnglishCounterW(self._query, COUNTER, ctypes.c_size_t(0),
                                          ctypes.byref(self._counter))):
            raise OSError(f"Windows has no counter {COUNTER}")

    def read(self) -> Samples | None:
        """Return the bytes of each instance; None if Windows has none."""
        if self._pdh.PdhCollectQueryData(self._query):
            return None
        size, count = ctypes.c_uint32(), ctypes.c_uint32()

        def ask(buffer: Any) -> int:
            asked = self._pdh.PdhGetFormattedCounterArrayW(
                self._counter, _LARGE, ctypes.byref(size), ctypes.byref(count), buffer)
            return int(asked) & 0xFFFFFFFF

        if ask(None) != _MORE_DATA:
            return None
        buffer = ctypes.create_string_buffer(size.value)
        if ask(buffer):
            return None
        items = ctypes.cast(buffer, ctypes.POINTER(_Item))
        return {str(items[at].name): int(items[at].value.large) for at in range(count.value)}

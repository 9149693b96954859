"""The ledger of the fake devices: a file in which the driver counts; tests read and change it."""

from __future__ import annotations

import ctypes
import mmap
import re
from dataclasses import dataclass
from pathlib import Path

LAYOUT = Path(__file__).resolve().parent / "src" / "ledger.h"
MAGIC = int.from_bytes(b"FAKDA1", "little")
MIB = 1 << 20


def _words(table: str) -> list[str]:
    """The names in one of the two lists of ledger.h, in their order."""
    text = LAYOUT.read_text(encoding="utf-8")
    body = re.search(rf"#define {table}\(X\)((?:.*\\\n)+.*\n)", text)
    assert body is not None
    return re.findall(r"\bX\((\w+)\)", body.group(1))


DEVICE_WORDS, LEDGER_WORDS = _words("DEVICE_WORDS"), _words("LEDGER_WORDS")


class _Device(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in DEVICE_WORDS]


class _File(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_uint64) for name in LEDGER_WORDS), ("devices", _Device * 8)]


@dataclass(frozen=True)
class Moment:
    """Every word of one device as it was at one moment: see src/ledger.h."""

    words: dict[str, int]

    def __getattr__(self, name: str) -> int:
        try:
            return self.words[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def free_bytes(self) -> int:
        """What the driver answers to cuMemGetInfo."""
        return max(0, self.capacity_bytes - self.used_bytes - self.other_process_bytes)


class Ledger:
    """The ledger of a running program; what is set here counts from its next call on."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), ctypes.sizeof(_File))
        self._file = _File.from_buffer(self._memory)
        if self._file.magic != MAGIC:
            raise ValueError(f"expected the ledger of a running program in {path}")

    def device(self, index: int = 0) -> Moment:
        """All figures of a device now."""
        source = bytes(self._file.devices[index])
        copy = _Device.from_buffer_copy(source)
        return Moment({name: getattr(copy, name) for name in DEVICE_WORDS})

    @property
    def pinned_bytes(self) -> int:
        """Host memory that is pinned now."""
        return int(self._file.pinned_bytes)

    def set(self, index: int = 0, **words: int) -> None:
        """Set words of a device, by their names in src/ledger.h."""
        for name, value in words.items():
            if name not in DEVICE_WORDS:
                raise ValueError(f"expected a word of {LAYOUT.name}, got {name}")
            setattr(self._file.devices[index], name, int(value))

    def fail(self, at: int = 1, *, times: int = 1, above_mib: float = 0, index: int = 0) -> None:
        """Let the `at`-th allocation from now fail, and `times` in all (0: every later one).

        Only allocations of at least `above_mib` count.
        """
        self.set(index, fail_above_bytes=int(above_mib * MIB), fail_times=times, fail_in=at)

    def reset_peaks(self, index: int = 0) -> None:
        """Reset the peaks to the current figures."""
        now = self.device(index)
        self.set(index, peak_used_bytes=now.used_bytes, peak_handle_bytes=now.handle_bytes,
                 peak_mapped_bytes=now.mapped_bytes, largest_workspace_bytes=0)

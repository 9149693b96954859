"""The simulated device of this process: the ledger behind a lock, charges, faults."""

from __future__ import annotations

import gc
import threading
from collections import deque
from dataclasses import dataclass

from .faults import KINDS, Fault, Shortage
from .ledger import Ledger, LedgerFull


class QuietLock:
    """A lock during which the garbage collector does not start on its own.

    It could run a finaliser that asks for device memory again, in the same thread: a deadlock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collects = True

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; False when it is taken and `blocking` is off."""
        if not self._lock.acquire(blocking):
            return False
        self._collects = gc.isenabled()
        gc.disable()
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._collects:
            gc.enable()  # before the next holder looks; nothing is allocated from here on
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Charge:
    """The memory of one storage; the ledger gets it back when its last tensor is gone."""

    __slots__ = ("_device", "nbytes")

    def __init__(self, device: SimDevice) -> None:
        self._device, self.nbytes = device, 0

    def __del__(self) -> None:
        if self.nbytes:
            self._device.release(self.nbytes)


@dataclass(frozen=True)
class Figures:
    """All figures of the device at one moment, for tests and for JSON."""

    capacity_bytes: int
    free_bytes: int
    other_process_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    requested_bytes: int
    live_blocks: int
    allocations: int
    frees: int
    alloc_retries: int
    ooms: int
    allocator: str = "native"


class SimDevice:
    """One GPU of `capacity_bytes`. Safe to use from several threads and from the collector.

    A tensor can die in the middle of an allocation (the garbage collector runs anywhere), so a
    release that finds the ledger busy is queued and done by whoever has the lock.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.ledger = Ledger(capacity_bytes)
        self.fault: Fault | None = None
        self._lock = QuietLock()
        self._released: deque[int] = deque()

    def charge(self, nbytes: int) -> Charge:
        """Take `nbytes` of device memory. Raises the out-of-memory error of PyTorch."""
        error: Exception | None = None
        charge = Charge(self)
        with self._lock:
            self._drain()
            kind = self._fault_kind(nbytes)
            try:
                self.ledger.malloc(nbytes, refuse=kind is not None)
                charge.nbytes = nbytes
            except LedgerFull as full:
                error = self._error(kind or "oom", full.asked_bytes)
        self._drain_unless_busy()
        if error is not None:
            raise error
        return charge

    def release(self, nbytes: int) -> None:
        """Return the bytes of a charge to the ledger, now or as soon as its lock is free."""
        self._released.append(nbytes)
        self._drain_unless_busy()

    def locked(self) -> _Locked:
        """A context with the ledger to itself, all releases done."""
        return _Locked(self)

    def figures(self) -> Figures:
        """All figures at one moment."""
        with self.locked() as ledger:
            stats, free_bytes = ledger.stats, ledger.mem_get_info()[0]
            return Figures(
                capacity_bytes=ledger.capacity_bytes,
                free_bytes=free_bytes,
                other_process_bytes=ledger.other_process_bytes,
                allocated_bytes=ledger.allocated_bytes,
                reserved_bytes=ledger.reserved_bytes,
                peak_allocated_bytes=stats.allocated_bytes.highest,
                peak_reserved_bytes=stats.reserved_bytes.highest,
                requested_bytes=stats.requested_bytes.current,
                live_blocks=stats.allocation.current,
                allocations=stats.allocation.allocated,
                frees=stats.allocation.freed,
                alloc_retries=stats.num_alloc_retries,
                ooms=stats.num_ooms,
            )

    def _fault_kind(self, nbytes: int) -> str | None:
        fault = self.fault
        return fault.kind if fault and nbytes and fault.strikes(nbytes) else None

    def _error(self, kind: str, asked_bytes: int) -> Exception:
        ledger = self.ledger
        free_bytes, capacity_bytes = ledger.mem_get_info()
        shortage = Shortage(
            asked_bytes, capacity_bytes, free_bytes, ledger.allocated_bytes, ledger.reserved_bytes
        )
        return KINDS[kind](shortage)

    def _drain(self) -> None:
        while self._released:
            self.ledger.free(self._released.popleft())

    def _drain_unless_busy(self) -> None:
        # Not `with`: this very thread may have the lock, further up the stack.
        while self._released and self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()


class _Locked:
    def __init__(self, device: SimDevice) -> None:
        self._device = device

    def __enter__(self) -> Ledger:
        self._device._lock.acquire()
        self._device._drain()
        return self._device.ledger

    def __exit__(self, *error: object) -> None:
        self._device._lock.release()
        self._device._drain_unless_busy()


_current: SimDevice | None = None


def current() -> SimDevice:
    """The device that was switched on in this process."""
    if _current is None:
        raise RuntimeError("no simulated GPU is switched on; call simgpu.switch_on() first")
    return _current


def set_current(device: SimDevice | None) -> None:
    """Make `device` the one that tensors are charged to; None when it is switched off."""
    global _current
    _current = device

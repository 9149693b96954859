"""Faults on demand: which allocation fails, and with which of the errors users really see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10


@dataclass(frozen=True)
class Shortage:
    """What the error texts say about the device at the moment of the failure."""

    asked_bytes: int
    capacity_bytes: int
    free_bytes: int
    allocated_bytes: int
    reserved_bytes: int


def format_bytes(nbytes: int) -> str:
    """A size as PyTorch writes it in its out-of-memory text."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"


def native_text(shortage: Shortage) -> str:
    """The text of the native caching allocator."""
    cached = shortage.reserved_bytes - shortage.allocated_bytes
    return (
        f"CUDA out of memory. Tried to allocate {format_bytes(shortage.asked_bytes)}. "
        f"GPU 0 has a total capacity of {format_bytes(shortage.capacity_bytes)} "
        f"of which {format_bytes(shortage.free_bytes)} is free. "
        f"Of the allocated memory {format_bytes(shortage.allocated_bytes)} is allocated by "
        f"PyTorch, and {format_bytes(cached)} is reserved by PyTorch but unallocated."
    )


def _native(shortage: Shortage) -> Exception:
    import torch

    return torch.OutOfMemoryError(native_text(shortage))


def _runtime(shortage: Shortage) -> Exception:
    return RuntimeError(native_text(shortage))


def _async_pool(shortage: Shortage) -> Exception:
    import torch

    return torch.OutOfMemoryError(
        "Allocation on device 0 would exceed allowed memory. (out of memory)\n"
        f"Currently allocated     : {format_bytes(shortage.allocated_bytes)}\n"
        f"Requested               : {format_bytes(shortage.asked_bytes)}\n"
        f"Device limit            : {format_bytes(shortage.capacity_bytes)}"
    )


def _cublas(shortage: Shortage) -> Exception:
    return RuntimeError(
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    )


def _cudnn(shortage: Shortage) -> Exception:
    return RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")


def _mps(shortage: Shortage) -> Exception:
    allocated, capacity = format_bytes(shortage.allocated_bytes), shortage.capacity_bytes
    return RuntimeError(
        f"MPS backend out of memory (MPS allocated: {allocated}, other allocations: 0 bytes, "
        f"max allowed: {format_bytes(capacity)}). Tried to allocate "
        f"{format_bytes(shortage.asked_bytes)} on private pool."
    )


def _accelerator(shortage: Shortage) -> Exception:
    import torch

    error = getattr(torch, "AcceleratorError", RuntimeError)("CUDA error: out of memory")
    error.error_code = 2  # cudaErrorMemoryAllocation
    return error


def _host(shortage: Shortage) -> Exception:
    return MemoryError("not enough memory")


def _illegal_access(shortage: Shortage) -> Exception:
    return RuntimeError("CUDA error: an illegal memory access was encountered")


# The last one is no shortage: a handler must let it through.
KINDS: dict[str, Callable[[Shortage], Exception]] = {
    "oom": _native,
    "runtime": _runtime,
    "async_pool": _async_pool,
    "cublas": _cublas,
    "cudnn": _cudnn,
    "mps": _mps,
    "accelerator": _accelerator,
    "host": _host,
    "illegal_access": _illegal_access,
}


@dataclass
class Fault:
    """Fail allocation number `at`, or every `every`-th, counting those above `above_bytes`.

    Numbers start at 1 with the first matching allocation after arming; without `at` and `every`
    each matching one fails. `times` ends the fault after that many failures (0: never).
    """

    at: int = 0
    every: int = 0
    above_bytes: int = -1
    times: int = 0
    kind: str = "oom"
    seen: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"expected a kind of {sorted(KINDS)}, got {self.kind!r}")
        if self.at < 0 or self.every < 0 or self.times < 0 or (self.at and self.every):
            raise ValueError("expected `at` or `every`, not both, and no negative number")

    def strikes(self, nbytes: int) -> bool:
        """Count one allocation of `nbytes`; whether it has to fail."""
        if nbytes <= self.above_bytes or (self.times and self.failed >= self.times):
            return False
        self.seen += 1
        hit = self.seen == self.at if self.at else self.seen % max(1, self.every) == 0
        self.failed += hit
        return hit

    def as_dict(self) -> dict[str, int | str]:
        """The settings and what happened so far, for JSON."""
        return asdict(self)

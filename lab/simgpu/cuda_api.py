"""The driver layer under `torch.cuda`: what torch's own Python code asks its C++ side.

Only the lowest functions are replaced, so `torch.cuda.memory_stats`, `memory_summary`,
`reset_peak_memory_stats`, `set_per_process_memory_fraction` and the rest are PyTorch's own.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import psutil
import torch

from .device import current
from .patches import Patches
from .streams import Event, Stream, stream_context
from .tensor import DEVICE

NAME = "Simulated GPU"
CAPABILITY = (8, 6)  # float16 and bfloat16 are fast, float8 is not: a common consumer card
CUDA_VERSION = "12.8"
SHARES_RAM = "SIMGPU_SHARES_RAM"  # 1: a chip without memory of its own, as in a laptop or a Jetson


def apply(patches: Patches) -> None:
    """Answer for the driver; torch believes that CUDA is there and initialised."""
    for name, answer in _driver_functions().items():
        patches.set(torch._C, name, answer)
    cuda = torch.cuda
    for name, value in {
        "_initialized": True,
        "_cudart": _Runtime(),
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": _current_device,
        "_exchange_device": lambda index: 0,
        "_maybe_exchange_device": lambda index: 0,
        "_get_device_properties": lambda index: properties(),
        "default_generators": (torch.default_generator,),
        "Stream": Stream,
        "Event": Event,
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "stream": stream_context,
        "set_stream": lambda stream: None,
        "get_arch_list": lambda: ["sm_86"],
        "is_current_stream_capturing": lambda: False,
        "list_gpu_processes": lambda device=None: f"{NAME}: no process list",
        "utilization": lambda device=None: 0,
    }.items():
        patches.set(cuda, name, value)
    patches.set(cuda.memory, "list_gpu_processes", cuda.list_gpu_processes)
    patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    patches.call(torch._C._set_cudnn_enabled, False, torch._C._get_cudnn_enabled())
    patches.set(torch.version, "cuda", torch.version.cuda or CUDA_VERSION)
    patches.set(torch.version, "hip", None)


def properties() -> SimpleNamespace:
    """What `torch.cuda.get_device_properties()` says of the simulated device."""
    return SimpleNamespace(
        name=NAME,
        total_memory=current().ledger.capacity_bytes,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        multi_processor_count=28,
        warp_size=32,
        max_threads_per_multi_processor=1536,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        L2_cache_size=3 << 20,
        is_integrated=os.environ.get(SHARES_RAM) == "1",
        is_multi_gpu_board=False,
        gcnArchName="",
        uuid="simulated",
    )


def _driver_functions() -> dict[str, Any]:
    return {
        "_cuda_getDeviceCount": lambda: 1,
        "_cuda_hasPrimaryContext": lambda index: True,
        "_cuda_getDevice": lambda: DEVICE.index,
        "_cuda_setDevice": lambda index: None,
        "_cuda_synchronize": lambda *device: None,
        "_cuda_ipc_collect": lambda: None,
        "_cuda_isInBadFork": lambda: False,
        "_cuda_is_in_bad_fork": lambda: False,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_memoryStats": _memory_stats,
        "_cuda_memorySnapshot": _snapshot,
        "_cuda_emptyCache": _empty_cache,
        "_cuda_resetPeakMemoryStats": _reset_peak,
        "_cuda_resetAccumulatedMemoryStats": _reset_accumulated,
        "_cuda_setMemoryFraction": _set_fraction,
        "_cuda_getMemoryFraction": _get_fraction,
        "_accelerator_setAllocatorSettings": _set_allocator_settings,
        "_accelerator_getAccelerator": lambda: torch.device(DEVICE.type),
        "_accelerator_getDeviceIndex": lambda: DEVICE.index,
        "_accelerator_setDeviceIndex": lambda index: None,
        "_accelerator_synchronizeDevice": lambda index: None,
        "_accelerator_emptyCache": _empty_cache,
        "_accelerator_getDeviceStats": _memory_stats,
        "_accelerator_resetPeakStats": _reset_peak,
        "_accelerator_resetAccumulatedStats": _reset_accumulated,
        "_accelerator_getMemoryInfo": lambda index: _Runtime().cudaMemGetInfo(index),
    }


class _Runtime:
    """The functions of the CUDA runtime that Python code calls."""

    cudaError = SimpleNamespace(success=0)

    @staticmethod
    def cudaMemGetInfo(device: Any) -> tuple[int, int]:
        with current().locked() as ledger:
            free_bytes, total_bytes = ledger.mem_get_info()
        if properties().is_integrated:
            free_bytes = min(free_bytes, psutil.virtual_memory().available)
        return free_bytes, total_bytes

    @staticmethod
    def cudaHostRegister(pointer: int, nbytes: int, flags: int) -> int:
        return 0

    @staticmethod
    def cudaHostUnregister(pointer: int) -> int:
        return 0

    @staticmethod
    def cudaGetErrorString(code: int) -> str:
        return "no error" if code == 0 else f"error {code}"


def _current_device() -> Any:
    # ComfyUI makes a torch.device of this. A torch without CUDA would make another kind of device
    # of a bare number.
    return 0 if torch.device(0) == DEVICE else DEVICE


def _memory_stats(device: Any) -> dict[str, object]:
    with current().locked() as ledger:
        return ledger.stats.nested()


def _empty_cache(*device: Any) -> None:
    with current().locked() as ledger:
        ledger.empty_cache()


def _reset_peak(device: Any) -> None:
    with current().locked() as ledger:
        ledger.stats.reset_peaks()


def _reset_accumulated(device: Any) -> None:
    with current().locked() as ledger:
        ledger.stats.reset_accumulated()


def _set_fraction(fraction: float, device: Any) -> None:
    with current().locked() as ledger:
        ledger.set_memory_fraction(fraction)


def _get_fraction(device: Any) -> float:
    ledger = current().ledger
    allowed = ledger.allowed_bytes
    return 1.0 if allowed is None else allowed / ledger.capacity_bytes


def _set_allocator_settings(settings: str) -> None:
    """Do nothing: PyTorch's own allocator is only on the fake driver."""


def _snapshot(*options: Any) -> dict[str, list[Any]]:
    """Return one segment with everything that is reserved; its unused part is one block."""
    with current().locked() as ledger:
        used, unused = ledger.allocated_bytes, ledger.reserved_bytes - ledger.allocated_bytes
    blocks = [{"size": size, "state": state}
              for size, state in ((used, "active_allocated"), (unused, "inactive")) if size]
    segment = {"device": DEVICE.index, "total_size": used + unused,
               "is_expandable": False, "blocks": blocks}
    return {"segments": [segment] if blocks else [], "device_traces": []}

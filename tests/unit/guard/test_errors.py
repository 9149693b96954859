"""Every family of out-of-memory errors is recognised, and nothing else."""

import errno

import pytest
import torch

from headroom.guard.attempt import Failure
from headroom.guard.errors import (
    MAX_TEXT,
    OomGuardError,
    is_out_of_memory,
    requested_bytes,
    where_of,
)

MIB = 1024 * 1024

DEVICE = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total"),
    torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory. (out of memory)"),
    RuntimeError("Allocation on device"),
    RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total)"),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate`"),
    RuntimeError("HIP out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity"),
    RuntimeError("HIP error: out of memory"),
    RuntimeError("CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`"),
    RuntimeError("MPS backend out of memory (MPS allocated: 17.85 GB, other allocations: 1 GB, "
                 "max allowed: 18.13 GB). Tried to allocate 256.00 MB on private pool."),
    RuntimeError("Invalid buffer size: 24.00 GB"),
    RuntimeError("XPU out of memory. Tried to allocate 1024.00 MiB (GPU 0; 15.91 GiB total)"),
    RuntimeError("level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
    RuntimeError("Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES)"),
    RuntimeError("Could not allocate tensor with 268435456 bytes. There is not enough GPU video "
                 "memory available!"),
    RuntimeError("VRAM grow failed: 134217728 bytes"),  # comfy-aimdo: a streamed weight's buffer
]
RAM = [
    MemoryError(),
    MemoryError("Unable to allocate 3.00 GiB for an array with shape (1, 2)"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't "
                 "allocate memory: you tried to allocate 8589934592 bytes. Error code 12"),
    RuntimeError("not enough memory: you tried to allocate 4294967296 bytes."),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
]
OTHERS = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (154x768 and 1024x320)"),
    RuntimeError("unsupported memory format option ChannelsLast"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    RuntimeError("the index is out of range for the memory of this block"),
    # comfy-aimdo: a fault whose code says that memory was not short (for want of memory it raises
    # nothing), address space, files.
    RuntimeError("Fault failed: 2"),
    RuntimeError("VRAM reservation failed"),
    RuntimeError("VRAM destroy failed: device context unavailable"),
    RuntimeError("HostBuffer.read_file_slice failed"),
    RuntimeError("HostBuffer allocation failed"),
    RuntimeError("ModelMMAP allocation failed for /models/a.safetensors"),
    MemoryError("VBAR OOM"),
    MemoryError("VBAR allocation failed"),
    OSError(errno.ENOSPC, "No space left on device"),
    ValueError("out of memory"),
    KeyError("CUDA out of memory"),
    KeyboardInterrupt("CUDA out of memory"),
    Exception("CUDA out of memory"),
]


def named(errors):
    return [pytest.param(e, id=f"{type(e).__name__}: {str(e)[:40]}") for e in errors]


@pytest.mark.parametrize("error", named(DEVICE))
def test_a_device_out_of_memory_is_recognised(error):
    assert is_out_of_memory(error)
    assert Failure.of(error).where == "device"


@pytest.mark.parametrize("error", named(RAM))
def test_a_ram_out_of_memory_is_recognised_as_one(error):
    assert is_out_of_memory(error)
    assert Failure.of(error).where == "RAM"


@pytest.mark.parametrize("error", named(OTHERS))
def test_no_other_error_counts_as_out_of_memory(error):
    assert not is_out_of_memory(error)


def test_an_accelerator_error_counts_by_its_code_or_its_text():
    accelerator_error = getattr(torch, "AcceleratorError", None)
    if accelerator_error is None:
        pytest.skip("this torch has no AcceleratorError")
    assert is_out_of_memory(accelerator_error("CUDA error: out of memory"))
    other = accelerator_error("CUDA error: device-side assert triggered")
    assert not is_out_of_memory(other)
    other.error_code = 2
    assert is_out_of_memory(other)


def test_the_final_error_is_an_out_of_memory_error_to_others():
    assert issubclass(OomGuardError, torch.OutOfMemoryError)
    gave_up = OomGuardError("gave up")
    assert is_out_of_memory(gave_up)
    gave_up.__cause__ = MemoryError()
    assert where_of(gave_up) == "RAM"


@pytest.mark.parametrize(("text", "amount"), [
    ("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has", 1536 * MIB),
    ("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0;", 20 * MIB),
    ("CUDA out of memory. Tried to allocate 512.00 KiB.", MIB // 2),
    ("MPS backend out of memory. Tried to allocate 256.00 MB on private pool.", 256 * MIB),
    ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8192 bytes. Error", 8192),
    ("Could not allocate tensor with 268435456 bytes. There is not", 256 * MIB),
    ("Unable to allocate 3.00 GiB for an array with shape (1, 2)", 3072 * MIB),
    ("Invalid buffer size: 24.00 GB", 24 * 1024 * MIB),
    ("VRAM grow failed: 134217728 bytes", 128 * MIB),
    ("Allocation on device 0 would exceed allowed memory. (out of memory)\n"
     "Currently allocated     : 1.10 GiB\nRequested               : 20.00 MiB", 20 * MIB),
    ("CUBLAS_STATUS_ALLOC_FAILED", None),
    ("Allocation on device", None),
])
def test_the_amount_a_call_asked_for_is_read_from_its_text(text, amount):
    assert requested_bytes(text) == amount


def test_only_the_beginning_of_a_very_long_error_text_is_read():
    assert is_out_of_memory(RuntimeError("CUDA out of memory" + " " * MAX_TEXT * 1000))
    assert not is_out_of_memory(RuntimeError(" " * MAX_TEXT + "CUDA out of memory"))

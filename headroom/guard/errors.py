"""Is this exception an out-of-memory error, of which memory, and how much did the call ask for?

ComfyUI's own test knows two families; the libraries below it raise many more, as plain
RuntimeErrors that only their text tells apart.
"""

import errno
import re
from typing import Literal

import torch

from ..base.device import MIB
from ..host.adapter import guard_host

Where = Literal["device", "RAM"]

# What an out-of-memory error can be; anything else is not even looked at.
CANDIDATES: tuple[type[Exception], ...] = (RuntimeError, MemoryError, OSError)

# torch.OutOfMemoryError exists since torch 2.5, the name in torch.cuda since 1.13.
TORCH_OOM: type[Exception] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
_ACCELERATOR_ERROR: type[Exception] | None = getattr(torch, "AcceleratorError", None)
_CUDA_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
MAX_CHAIN = 20  # errors, each raised from the next
MAX_TEXT = 20_000  # that is looked at: patterns take half a second for each million characters

# The kinds by which others tell out-of-memory errors apart, the narrowest first.
KINDS: tuple[type[Exception], ...] = tuple(
    kind for kind in (TORCH_OOM, _ACCELERATOR_ERROR, MemoryError, OSError, RuntimeError) if kind
)

# Sources: the texts of PyTorch's allocators (c10/cuda, c10/xpu, the MPS allocator) and of its
# checks on library calls (cuBLAS, cuDNN and AMD's names for them), the status names of MIOpen,
# Unified Runtime and Level Zero, and DirectML's and vendors' plug-in devices' own words.
_DEVICE_TEXTS = re.compile(
    r"(cuda|hip|mps backend|xpu|npu|mlu|musa|gpu|device|accelerator)\w*( error)?:? out of memory"
    r"|out of memory\. tried to allocate"
    r"|allocation on device"
    r"|cuda ?error ?memory ?allocation|hip ?error ?out ?of ?memory"
    r"|(cublas|hipblas|rocblas|cusolver|cusparse|cufft|cudnn)_(status_)?\w*alloc\w*failed"
    r"|rocblas_status_memory_error|miopenstatusallocfailed"
    r"|ur_result_error_out_of_(device_memory|resources)"
    r"|pi_error_out_of_(resources|memory)|pi_error_mem_object_allocation_failure"
    r"|ze_result_error_out_of_device_memory"
    r"|not enough gpu video memory|could not allocate tensor with \d+ bytes"
    r"|failed to allocate \d+ bytes .*(device|gpu)"
    r"|invalid buffer size|vram grow failed",
    re.IGNORECASE,
)
# comfy-aimdo: no address space for a model, or more of it than was set aside; memory is not short.
_ADDRESS_SPACE = re.compile(r"vbar (oom|allocation failed)", re.IGNORECASE)
_RAM_TEXTS = re.compile(
    r"defaultcpuallocator|not enough memory: you tried to allocate"
    r"|ur_result_error_out_of_host_memory|ze_result_error_out_of_host_memory"
    r"|cuda error: host memory allocation|cannot allocate memory",
    re.IGNORECASE,
)
_OOM_NAMES = ("OutOfMemoryError", "OomGuardError")
_RUNTIME_NAMES = (*_OOM_NAMES, "RuntimeError", "AcceleratorError")
_AMOUNT = re.compile(
    r"(?:tried to allocate|tried to alloc|you tried to allocate|invalid buffer size:?"
    r"|vram grow failed|requested|could not allocate tensor with|failed to allocate"
    r"|unable to allocate)"
    r"\s*:?\s*([\d.,]+)\s*([kmgt]i?b|bytes?|b)\b",
    re.IGNORECASE,
)
_UNIT_BYTES = {"b": 1, "k": 1024, "m": MIB, "g": 1024 * MIB, "t": 1024 * 1024 * MIB}


class OomGuardError(TORCH_OOM):  # type: ignore[misc, valid-type]
    """OOM Guard gave up. Still an out-of-memory error to ComfyUI, which then unloads all models."""


class NotBegunError(TORCH_OOM):  # type: ignore[misc, valid-type]
    """ComfyUI did not begin what it expected to be too much: nothing had been allocated."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` is an out-of-memory error of any family, device or RAM.

    An interrupt never is, whatever it derives from. On hosts that can, this also clears the
    asynchronous CUDA error that a failed allocation leaves pending.
    """
    if not isinstance(error, CANDIDATES):
        return False
    host = guard_host()
    if host is not None and host.is_interrupt(error):
        return False
    if host is not None and host.is_host_oom(error):
        return True
    return where_of(error) is not None


def out_of_memory_behind(error: BaseException) -> BaseException | None:
    """Return `error` or the one that it was raised from, or while handling, that is out of memory.

    Many packs catch what their work raises and raise something of their own.
    """
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain and len(chain) < MAX_CHAIN:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return next((one for one in chain if is_out_of_memory(one)), None)


def where_of(error: BaseException) -> Where | None:
    """Return which memory ran out, by type and text alone; None where it was not memory."""
    if isinstance(error, OomGuardError) and error.__cause__ is not None:
        return where_of(error.__cause__)  # what the guard could not make room for
    if isinstance(error, MemoryError):
        return None if _ADDRESS_SPACE.match(str(error)) else "RAM"
    if isinstance(error, OSError):
        return "RAM" if error.errno == errno.ENOMEM else None
    if not isinstance(error, RuntimeError):
        return None
    text = str(error)[:MAX_TEXT]
    if _RAM_TEXTS.search(text):
        return "RAM"
    if isinstance(error, TORCH_OOM) or _is_accelerator_oom(error, text):
        return "device"
    return "device" if _DEVICE_TEXTS.search(text) else None


def where_of_text(type_name: str, text: str) -> Where | None:
    """Return which memory ran out, by what ComfyUI's history says of an error; None: not memory.

    Only a name and a text are left there, so subclasses that a pack made up are known by the
    words that ComfyUI itself adds for an out-of-memory error.
    """
    name, text = type_name.rpartition(".")[2], text[:MAX_TEXT]
    if name == "MemoryError" or name == "_ArrayMemoryError":
        return "RAM"
    if name == "OSError":
        return "RAM" if f"[Errno {errno.ENOMEM}]" in text else None
    told = "you ran out of memory on your GPU" in text
    if not told and name not in _RUNTIME_NAMES:
        return None
    if _RAM_TEXTS.search(text):
        return "RAM"
    if told or name in _OOM_NAMES or _DEVICE_TEXTS.search(text):
        return "device"
    return None


def _is_accelerator_oom(error: BaseException, text: str) -> bool:
    if _ACCELERATOR_ERROR is None or not isinstance(error, _ACCELERATOR_ERROR):
        return False
    code = getattr(error, "error_code", None)
    return code == _CUDA_OUT_OF_MEMORY or "out of memory" in text.lower()


def requested_bytes(text: str) -> int | None:
    """Return how much the failed call asked for, as its error text tells; None if it does not."""
    found = _AMOUNT.search(text[:MAX_TEXT])
    if found is None:
        return None
    digits, unit = found.group(1).rstrip(".,").replace(",", ""), found.group(2).lower()
    try:
        amount = float(digits)
    except ValueError:
        return None
    return int(amount * _UNIT_BYTES["b" if unit.startswith("byte") else unit[0]])

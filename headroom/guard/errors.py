"""Is this exception an out-of-memory error, of which memory, and how much did the call ask for?

ComfyUI's own test knows two families; the libraries below it raise many more, as plain
RuntimeErrors that only their text tells apart.
"""

import re

import torch
from safetensors import SafetensorError

from ..base.device import MIB
from ..base.error_table import MAX_TEXT, Where, row_of
from ..host.adapter import guard_host

# Only errors of these types can be out-of-memory errors.
CANDIDATES: tuple[type[Exception], ...] = (RuntimeError, MemoryError, OSError, SafetensorError)

# The name torch.OutOfMemoryError exists since torch 2.5, the name in torch.cuda since 1.13.
TORCH_OOM: type[Exception] = torch.cuda.OutOfMemoryError
_ACCELERATOR_ERROR: type[Exception] | None = getattr(torch, "AcceleratorError", None)
_CUDA_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation

# The types by which other code knows out-of-memory errors, the narrowest first.
KINDS: tuple[type[Exception], ...] = tuple(
    kind for kind in (TORCH_OOM, _ACCELERATOR_ERROR, MemoryError, OSError, RuntimeError) if kind
)
# The names that the table of errors and ComfyUI's history have for them.
_NAMES = {"OutOfMemoryError": TORCH_OOM, "MemoryError": MemoryError, "OSError": OSError,
          "SafetensorError": SafetensorError, "RuntimeError": RuntimeError}
# The same for ComfyUI's history, which has no types: a class of a pack that is none of these, but
# means out of memory, is named here.
_TOLD_NAMES = {*_NAMES, "OomGuardError", "AcceleratorError", "_ArrayMemoryError"}
_TOLD_BY_COMFYUI = "you ran out of memory on your GPU"
_AMOUNT = re.compile(
    r"(?:tried to allocate|tried to alloc|invalid buffer size:?"
    r"|vram grow failed|requested|could not allocate tensor with|failed to allocate"
    r"|unable to allocate)"
    r"\s*:?\s*(\d[\d,]*(?:\.\d+)?)\s*([kmgt]i?b|bytes?|b)\b",
    re.IGNORECASE,
)
_UNIT_BYTES = {"b": 1, "k": 1024, "m": MIB, "g": 1024 * MIB, "t": 1024 * 1024 * MIB}


class OomGuardError(TORCH_OOM):  # type: ignore[misc, valid-type]
    """OOM Guard could not help. ComfyUI takes it for out of memory and then unloads all models.

    `is_final`: nor can a rerun, because the call needs more than the GPU has for it alone.
    """

    __module__ = "headroom"  # in ComfyUI's reports, where its own name for ours is a path

    def __init__(self, text: str, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class NotBegunError(TORCH_OOM):  # type: ignore[misc, valid-type]
    """ComfyUI expected the call to need too much and did not begin it: nothing was allocated."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` is an out-of-memory error of any family, device or RAM.

    Where ComfyUI can, this also clears the asynchronous CUDA error that a failed allocation leaves
    pending.
    """
    host = guard_host()
    return (host is not None and host.is_host_oom(error)) or where_of(error) is not None


def out_of_memory_behind(error: BaseException) -> BaseException | None:
    """Return the out-of-memory error among `error` and its causes, or None.

    Many packs catch what their work raises and raise something of their own.
    """
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return next((one for one in chain if is_out_of_memory(one)), None)


def where_of(error: BaseException) -> Where | None:
    """Return which memory ran out, by type and text alone; None if a rerun cannot help."""
    if isinstance(error, OomGuardError) and error.__cause__ is not None:
        return where_of(error.__cause__)  # the error that OOM Guard could not recover from
    name = next((name for name, kind in _NAMES.items() if isinstance(error, kind)), None)
    row = None if name is None else row_of(name, str(error))
    if row is None and _is_accelerator_oom(error):
        return "device"
    return None if row is None else row.where


def where_of_text(type_name: str, text: str) -> Where | None:
    """Return which memory ran out, from ComfyUI's history of an error; None: it was not memory.

    The history has only a type's name and a text. A subclass that a pack made is known by the words
    that ComfyUI itself adds to every out-of-memory error.
    """
    if type_name.rpartition(".")[2] not in _TOLD_NAMES and _TOLD_BY_COMFYUI not in text[:MAX_TEXT]:
        return None
    row = row_of(type_name, text)
    return None if row is None else row.where


def _is_accelerator_oom(error: BaseException) -> bool:
    if _ACCELERATOR_ERROR is None or not isinstance(error, _ACCELERATOR_ERROR):
        return False
    code = getattr(error, "error_code", None)
    return code == _CUDA_OUT_OF_MEMORY or "out of memory" in str(error)[:MAX_TEXT].lower()


def requested_bytes(text: str) -> int | None:
    """Return how much the failed call asked for, as its error text tells; None if it does not."""
    found = _AMOUNT.search(text[:MAX_TEXT])
    if found is None:
        return None
    return int(float(found[1].replace(",", "")) * _UNIT_BYTES[found[2][0].lower()])

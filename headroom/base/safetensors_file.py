"""safetensors files: where tensors lie in one, and one as bytes; nothing in a header is trusted.

Format: 8 bytes little-endian header length, JSON header, data
(https://github.com/huggingface/safetensors#format). Read and written here and not by the
safetensors library, whose Rust part ends the process, raises what is no Exception, or waits for
ever when RAM runs out in it (measured with 0.7.0 below a limit of address space).
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any

import numpy as np
import torch

from .numpy_backed import empty_numpy_backed

MAX_HEADER_BYTES = 100_000_000
MAX_TENSORS = 10_000  # that are read: each costs time and a KiB, however small it is in the file

DTYPES: dict[torch.dtype, str] = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}
_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}


@dataclass(frozen=True)
class Slot:
    """Where the bytes of one tensor lie in a file: `offset` counts from its start."""

    offset: int
    nbytes: int


def read_slots(file: IO[bytes], file_bytes: int) -> list[Slot]:
    """Return the tensors of a safetensors file of `file_bytes` from its header; reads no weights.

    Raises ValueError when the file is anything else: damaged, cut short, a pointer to a file.
    """
    header, start = _read_header(file, file_bytes)
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    return [_slot(entry, start, file_bytes) for entry in entries]


def serialize(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return a safetensors file with these CPU tensors of DTYPES; costs its bytes in RAM."""
    # Wide elements first: then each tensor begins at a multiple of its element's size.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].itemsize)
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    parts, end = [], 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        parts.append(byte_view(tensor))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def deserialize(data: bytes) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors, NumPy-backed copies, and the metadata of a whole file.

    Costs the tensors' bytes in RAM. Raises ValueError when it is anything else than sound.
    """
    header, start = _read_header(BytesIO(data), len(data))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise ValueError("the header is damaged: its metadata is no object")
    if len(header) > MAX_TENSORS:
        raise ValueError(f"it has more than {MAX_TENSORS:,} tensors")
    slots = {name: _slot(entry, start, len(data)) for name, entry in header.items()}
    if sum(slot.nbytes for slot in slots.values()) > len(data) - start:
        raise ValueError("the header is damaged: its tensors overlap")  # or a KiB fills all RAM
    content = np.frombuffer(data, np.uint8)
    tensors = {name: _tensor(entry, content, slots[name]) for name, entry in header.items()}
    return tensors, metadata


def _tensor(entry: dict[str, Any], content: Any, slot: Slot) -> torch.Tensor:
    name, shape = entry.get("dtype"), entry.get("shape")
    dtype = _BY_NAME.get(name) if isinstance(name, str) else None
    if dtype is None or not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise ValueError("the header is damaged: a tensor has no dtype or shape")
    if math.prod(shape) * dtype.itemsize != slot.nbytes:
        raise ValueError("the header is damaged: a tensor's shape and place do not agree")
    tensor = empty_numpy_backed(tuple(shape), dtype)
    byte_view(tensor)[:] = content[slot.offset : slot.offset + slot.nbytes]
    return tensor


def _is_size(given: Any) -> bool:
    # Beyond the limit only an empty tensor could be meant, and NumPy counts its bytes in 64 bits.
    return type(given) is int and 0 <= given < 2**32


def byte_view(tensor: torch.Tensor) -> Any:
    """Return the bytes of a CPU tensor as a NumPy array; a view of it where it is contiguous."""
    if not tensor.numel():  # torch has no view of nothing in another width
        return np.empty(0, np.uint8)
    flat = tensor.detach().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()


def _read_header(file: IO[bytes], file_bytes: int) -> tuple[dict[str, Any], int]:
    prefix = file.read(8)
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else file_bytes
    if length > min(MAX_HEADER_BYTES, file_bytes - 8):
        raise ValueError("expected a safetensors file, but there is no such header")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise ValueError("the header is damaged") from error
    if not isinstance(header, dict):
        raise ValueError("the header is damaged: it is no JSON object")
    return header, 8 + length


def _slot(entry: Any, start: int, file_bytes: int) -> Slot:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or [type(place) for place in offsets] != [int, int]:
        raise ValueError("the header is damaged: a tensor has no place in the file")
    begin, end = start + offsets[0], start + offsets[1]
    if not start <= begin <= end <= file_bytes:
        raise ValueError("the file is cut short, or its header points outside of it")
    return Slot(begin, end - begin)

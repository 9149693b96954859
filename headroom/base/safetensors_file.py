"""Read and write the safetensors container, streaming: one header, then raw bytes in order.

The library's `save_file` wants every tensor in one dict and keeps their bytes a second time; here
a model's weights are written storage by storage without a copy. Format: 8 bytes little-endian
header length, JSON header, data (https://github.com/huggingface/safetensors#format).
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

ALIGNMENT = 64
MAX_HEADER_BYTES = 100_000_000

DTYPES: dict[torch.dtype, str] = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}


@dataclass(frozen=True)
class Slot:
    """Where one tensor's bytes lie in a file: `offset` counts from the start of the file."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def read_slots(path: Path) -> list[Slot]:
    """Return the tensors of a safetensors file from its header; reads no weights.

    Raises ValueError when the file is not a well-formed safetensors file.
    """
    with path.open("rb") as file:
        header, start = _read_header(file, path)
    slots = []
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            slots.append(
                Slot(path, name, entry["dtype"], tuple(entry["shape"]), start + begin, end - begin)
            )
    return slots


def _read_header(file: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    prefix = file.read(8)
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEADER_BYTES + 1
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"expected a safetensors file, but {path.name} has no such header")
    try:
        header = json.loads(file.read(length))
    except ValueError as error:
        raise ValueError(f"the header of {path.name} is damaged") from error
    return header, 8 + length


def flat_bytes(data: torch.Tensor) -> memoryview:
    """Return the memory of a flat uint8 CPU tensor, not a copy."""
    array: Any = data.numpy()
    return memoryview(array)


def write_storages(path: Path, storages: Sequence[tuple[str, torch.Tensor]]) -> list[Slot]:
    """Write named flat uint8 tensors to `path` and return where each one lies.

    Peak extra RAM: none beyond the file system's own cache. Raises OSError as the disk gives it.
    """
    entries: dict[str, dict[str, object]] = {}
    position = 0
    for name, data in storages:
        begin = position
        position += data.numel()
        entries[name] = {"dtype": "U8", "shape": [data.numel()], "data_offsets": [begin, position]}
        position += -position % ALIGNMENT
        if position > begin + data.numel():
            # The format wants no holes between tensors: fill up with a named pad.
            pad_begin = begin + data.numel()
            entries[f"{name}.pad"] = {
                "dtype": "U8", "shape": [position - pad_begin],
                "data_offsets": [pad_begin, position],
            }
    header = json.dumps(entries).encode()
    header += b" " * (-(8 + len(header)) % ALIGNMENT)
    slots, start = [], 8 + len(header)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for name, data in storages:
            slots.append(Slot(path, name, "U8", (data.numel(),), file.tell(), data.numel()))
            file.write(flat_bytes(data))
            file.write(b"\0" * (-(file.tell() - start) % ALIGNMENT))
    return slots

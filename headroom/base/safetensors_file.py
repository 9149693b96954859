"""Where tensors lie in a safetensors file; nothing in its header is trusted.

Format: 8 bytes little-endian header length, JSON header, data
(https://github.com/huggingface/safetensors#format). The safetensors library does not tell.
"""

import json
import struct
from dataclasses import dataclass
from typing import IO, Any

MAX_HEADER_BYTES = 100_000_000


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

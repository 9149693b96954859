"""Safetensors files with true headers and no weights: a real model's shape for a MiB of disk.

The header is written, the file is stretched to its length, and what lies between is a hole that
reads as zeros. Only what a loader reads as text (the tokenizer of some text encoders, the settings
of quantised layers) has its content.
Format: https://github.com/huggingface/safetensors#format.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .errors import DevError

ITEM_BYTES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}
# Tensors that are a text, by the last part of their names; and single numbers, such as a LoRA's
# alpha, which loaders compute with.
TEXTS = ("comfy_quant", "spiece_model", "tekken_model", "tokenizer_json")
NUMBER_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
Shape = tuple[int, ...]


class Weight(NamedTuple):
    """A tensor as a header describes it; the type by its name there ("F16", "F8_E4M3")."""

    dtype: str
    shape: Shape

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class SparseFile:
    """What is in a file: its tensors, the bytes of those that have some, and its metadata."""

    weights: Mapping[str, Weight]
    values: Mapping[str, bytes] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(weight.nbytes for weight in self.weights.values())


def write_sparse(path: Path, content: SparseFile) -> Path:
    """Write the file, whole or not at all; OSError where the disk refuses."""
    header: dict[str, Any] = {"__metadata__": dict(content.metadata)} if content.metadata else {}
    places, end = {}, 0
    for name, weight in content.weights.items():
        places[name], end = end, end + weight.nbytes
        header[name] = {"dtype": weight.dtype, "shape": list(weight.shape),
                        "data_offsets": [places[name], end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, value in content.values.items():
            file.seek(8 + len(text) + places[name])
            file.write(value)
        file.truncate(8 + len(text) + end)
    return partial.replace(path)


def read_sparse(path: Path) -> SparseFile:
    """What is in a real file, from its header; of its tensors only texts and numbers are read.

    DevError when it is no whole safetensors file.
    """
    with path.open("rb") as file:
        start, header = _header(path, file.read(8), file)
        metadata = header.pop("__metadata__", {}) or {}
        weights, values = {}, {}
        for name, entry in header.items():
            weights[name] = Weight(str(entry["dtype"]), tuple(entry["shape"]))
            begin, end = entry["data_offsets"]
            if name.rpartition(".")[2] in TEXTS or end - begin <= NUMBER_BYTES:
                file.seek(start + begin)
                values[name] = file.read(end - begin)
    if unknown := {weight.dtype for weight in weights.values()} - set(ITEM_BYTES):
        raise DevError(f"{path} has weights of a type that is not known: {', '.join(unknown)}.")
    return SparseFile(weights, values, metadata)


def _header(path: Path, prefix: bytes, file: Any) -> tuple[int, dict[str, Any]]:
    """Where the weights begin, and what the header says of them."""
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEADER_BYTES + 1
    if length > MAX_HEADER_BYTES:
        raise DevError(f"{path} is no safetensors file: it has no such header.")
    try:
        header = json.loads(file.read(length))
        _ = [(entry["dtype"], entry["shape"], *entry["data_offsets"])
             for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DevError(f"{path} is no safetensors file: its header is damaged.") from error
    return 8 + int(length), header

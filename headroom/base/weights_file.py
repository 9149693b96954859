"""What a model file contains, from its header alone: bytes in all, as 16 bit, and by part."""

import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from .prompt_node import is_model_name
from .untrusted_file import read_untrusted

MAX_HEADER_BYTES = 32 << 20  # ten times the largest header of published files
WITH_HEADER = (".safetensors", ".sft")
WIDE = {"F64": 4, "F32": 2, "I64": 1}  # by this factor it is smaller in 16 bit
# The prefixes of a checkpoint's parts, and the wires on which a loader returns them.
PARTS = {
    "model.diffusion_model.": "MODEL", "cond_stage_model.": "CLIP", "conditioner.": "CLIP",
    "text_encoders.": "CLIP", "first_stage_model.": "VAE", "vae.": "VAE",
}


class Weights(NamedTuple):
    """Bytes on disk, and those of each part as 16 bit; "" is the part without a prefix.

    `is_broken`: the header cannot be read, so only the size on disk is known.
    """

    bytes: int
    parts: Mapping[str, int]
    is_broken: bool = False


def weights_of(path: Path) -> Weights | None:
    """Return what a model file contains; None if it is no file, or no longer exists.

    It reads the header of a .safetensors file, only once while the file is unchanged; for other
    files only the size. It costs some milliseconds.
    """
    if not is_model_name(path.name):
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return _weights(path, path.suffix.lower(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _weights(path: Path, suffix: str, size: int, _changed: int) -> Weights:
    if suffix not in WITH_HEADER:
        return Weights(size, {"": size})
    try:
        return _by_header(path, size)
    except (OSError, ValueError, RecursionError, struct.error):
        return Weights(size, {"": size}, is_broken=True)


def _by_header(path: Path, size: int) -> Weights:
    """Raises ValueError for a header that does not fit this file."""
    (length,) = struct.unpack("<Q", read_untrusted(path, size, 8))
    if length > min(size - 8, MAX_HEADER_BYTES):
        raise ValueError("the header is longer than the file, or than a header can be")
    header = json.loads(read_untrusted(path, size, 8 + length)[8:])
    if not isinstance(header, dict):
        raise ValueError("the header is no table")
    total, parts = 0, dict[str, int]()
    for name, tensor in header.items():
        if name != "__metadata__":
            taken = _bytes_of(tensor, size - 8 - length)
            part = next((PARTS[prefix] for prefix in PARTS if name.startswith(prefix)), "")
            total += taken
            parts[part] = parts.get(part, 0) + taken // WIDE.get(tensor.get("dtype"), 1)
    return Weights(total, parts)


def _bytes_of(tensor: Any, most: int) -> int:
    match tensor:
        case {"data_offsets": [int(begin), int(end)], "dtype": str()} if 0 <= begin <= end <= most:
            return end - begin
    raise ValueError("a tensor lies outside of the file")

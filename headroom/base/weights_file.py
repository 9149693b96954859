"""What a model file contains, from its header alone: bytes in all, as 16 bit, and by part."""

import math
import re
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from .prompt_node import is_model_name

WITH_HEADER = (".safetensors", ".sft")
WIDE = {"F64": 4, "F32": 2, "I64": 1}  # by this factor it is smaller in 16 bit
# The prefixes of a checkpoint's parts, and the wires on which a loader returns them.
PARTS = {
    "model.diffusion_model.": "MODEL", "cond_stage_model.": "CLIP", "conditioner.": "CLIP",
    "text_encoders.": "CLIP", "first_stage_model.": "VAE", "vae.": "VAE",
}


class Weights(NamedTuple):
    """Bytes on disk, and those of each part as 16 and as 8 bit; "" is the part without a prefix.

    `is_broken`: the header cannot be read, so only the size on disk is known.
    """

    bytes: int
    parts: Mapping[str, int]
    parts_8_bit: Mapping[str, int]
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
    if not stat.S_ISREG(status.st_mode):  # the library would wait for a FIFO
        return None
    return _weights(path, path.suffix.lower(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _weights(path: Path, suffix: str, size: int, _changed: int) -> Weights:
    by_size = Weights(size, {"": size}, {"": size // 2})
    if suffix not in WITH_HEADER:
        return by_size
    try:
        return Weights(size, *_parts_of(path))
    except (OSError, SafetensorError):
        return by_size._replace(is_broken=True)


def _parts_of(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the bytes of each part as 16 and as 8 bit. The library checks the header."""
    parts: dict[str, int] = {}
    small: dict[str, int] = {}
    with safe_open(path, framework="np") as file:
        for name in file.keys():
            tensor = file.get_slice(name)
            dtype = tensor.get_dtype()
            # Its first number is that of its bits; "BOOL" has none, and takes 8.
            bits = int(re.findall(r"\d+", f"{dtype} 8")[0])
            count = math.prod(tensor.get_shape())
            taken = count * bits // 8 // WIDE.get(dtype, 1)
            part = next((PARTS[prefix] for prefix in PARTS if name.startswith(prefix)), "")
            parts[part] = parts.get(part, 0) + taken
            small[part] = small.get(part, 0) + min(taken, count)
    return parts, small

"""A nested value with tensors as the bytes of one safetensors file, and back, without pickle.

Tensors are stored under their own dtype; lists, tuples, dicts and plain values around them are
JSON in the file's metadata, with a checksum over all of it.
"""

import hashlib
import json
import struct
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from .device import MIB
from .inputs import shown
from .numpy_backed import is_plain, numpy_backed
from .said import said

FORMAT = 1
METADATA_KEY = "headroom"
MAX_HEADER_BYTES = 10_000_000  # JSON of brackets takes up to 30 times as much RAM when it is read
MAX_TENSORS = 10_000  # each costs time and a KiB, however small it is in the file
DTYPES = frozenset((
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
))
# The errors of the parsers and of our own reading for bytes that somebody else wrote.
DEFECTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, SafetensorError,
    TypeError, ValueError, struct.error,
)


class Unstorable(ValueError):
    """The value cannot be stored safely in a file; the text names the part."""


class Damaged(ValueError):
    """The bytes are not what was written, or were written for another key."""


def to_bytes(value: Any, key: str) -> bytes:
    """Return the file content for `value`; `key` is checked when it is read again.

    Raises Unstorable for anything but tensors, lists, tuples, dicts, text, numbers, booleans and
    None.
    """
    tensors: dict[str, torch.Tensor] = {}
    structure = _structure(value, tensors)
    if len(tensors) > MAX_TENSORS:
        raise Unstorable(said("it has more than {most} tensors", most=f"{MAX_TENSORS:,}"))
    digest = _digest(key, structure, tensors)
    note = {"format": FORMAT, "key": key, "structure": structure, "sha256": digest}
    _expect_room(2 * sum(tensor.nbytes for tensor in tensors.values()))
    data = bytes(save(tensors, {METADATA_KEY: json.dumps(note)}))
    if _header_bytes(data) > MAX_HEADER_BYTES:
        raise Unstorable(said("it has more than {most} MB of text and numbers beside its tensors",
                              most=MAX_HEADER_BYTES // 1_000_000))
    return data


def from_bytes(data: bytes, key: str) -> Any:
    """Return the value that `to_bytes` wrote under `key`, its tensors NumPy-backed.

    Raises Damaged if the content is damaged, truncated, foreign, or for another key.
    """
    try:
        header = _header(data)
        note = json.loads(header.pop("__metadata__")[METADATA_KEY])
        structure = note["structure"]
        if note["format"] != FORMAT or note["key"] != key:
            raise Damaged("the file is of another format or for another prompt")
        if len(header) > MAX_TENSORS:
            raise Damaged(f"it has more than {MAX_TENSORS:,} tensors")
        _expect_room(len(data))
        tensors = {name: numpy_backed(tensor) for name, tensor in load(data).items()}
        if note["sha256"] != _digest(key, structure, tensors):
            raise Damaged("the checksum does not match")
        return _restore(json.loads(structure), tensors)
    except Damaged:
        raise
    except DEFECTS as error:
        raise Damaged(f"not a file that Headroom wrote: {error}"[:200]) from error


def _structure(value: Any, tensors: dict[str, torch.Tensor]) -> str:
    try:
        return json.dumps(_describe(value, tensors, {}, "value"))
    except RecursionError as error:
        raise Unstorable(said("it is nested too deeply, or contains itself")) from error


def _describe(value: Any, tensors: dict[str, torch.Tensor], names: dict[int, str], at: str) -> Any:
    if isinstance(value, torch.Tensor):
        return {"tensor": _name_of(value, tensors, names, at)}
    if value is None or type(value) in (str, int, float, bool):
        return {"value": value}
    if type(value) is dict:
        if not all(key is None or type(key) in (str, int, float, bool) for key in value):
            raise Unstorable(said("a key of {part} is no text or number", part=at))
        items = [
            [key, _describe(item, tensors, names, f"{at}[{shown(key)}]")]
            for key, item in value.items()
        ]
        return {"dict": items}
    if type(value) in (list, tuple):
        items = [
            _describe(item, tensors, names, f"{at}[{index}]") for index, item in enumerate(value)
        ]
        return {type(value).__name__: items}
    raise Unstorable(said("{part} is a {kind}, which has no safe form in a file", part=at,
                          kind=type(value).__name__))


def _name_of(
    tensor: torch.Tensor, tensors: dict[str, torch.Tensor], names: dict[int, str], at: str
) -> str:
    """Return the name under which a tensor is stored; with --gpu-only it is on the GPU."""
    if id(tensor) not in names:
        if not is_plain(tensor) or tensor.dtype not in DTYPES:
            raise Unstorable(said("{part} is a tensor of a kind that safetensors cannot store",
                                  part=at))
        names[id(tensor)] = f"t{len(names)}"
        # The library accepts neither two tensors over the same memory, nor a view with gaps.
        tensors[names[id(tensor)]] = numpy_backed(tensor)
    return names[id(tensor)]


def _restore(described: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Any:
    ((kind, content),) = described.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "value" and not isinstance(content, (dict, list)):
        return content
    if kind not in ("dict", "list", "tuple") or not isinstance(content, list):
        raise Damaged(f"the structure has an unknown part {kind!r}"[:200])
    if kind == "dict":
        return {key: _restore(item, tensors) for key, item in content}
    items = [_restore(item, tensors) for item in content]
    return items if kind == "list" else tuple(items)


def _digest(key: str, structure: str, tensors: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, key, structure]).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():  # torch cannot view an empty tensor in another width
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _header(data: bytes) -> dict[str, Any]:
    """Return the header. The library reads metadata only from a file that it maps to memory; if
    somebody shortens that file meanwhile, the system ends this process."""
    length = _header_bytes(data)
    if length > MAX_HEADER_BYTES:
        raise Damaged("its header is too long")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    return header


def _header_bytes(data: bytes) -> int:
    return int(struct.unpack("<Q", data[:8])[0])


def _expect_room(nbytes: int) -> None:
    """Raise MemoryError if RAM has not so many bytes: the library would end the process, or never
    return (measured with 0.7.0 and 0.8.0 below a limit of address space)."""
    np.empty(nbytes + MIB, np.uint8)

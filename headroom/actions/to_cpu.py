"""Copy every tensor inside a value to the CPU, wherever it is in the structure.

The value itself never changes: lists, tuples, dicts, dataclasses and nested tensors are rebuilt
around the copies, and everything else is used in the new structure unchanged. Attributes are looked
up on an object's class only: some objects raise an error for each attribute that they lack.
"""

import copy
import dataclasses
import enum
import inspect
import types
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from ..base.device import MIB
from ..base.numpy_backed import is_plain, numpy_backed
from ..base.said import joined, said
from ..measure.journal import note_action
from ..measure.report import Report
from ..measure.snapshot import snapshot

_LEAVES = (
    str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device, torch.Size,
    enum.Enum, PurePath, np.generic,
    types.FunctionType, types.BuiltinFunctionType, types.MethodType,
)
# Errors from copying, creating or filling an unusual subclass of a container.
_CANNOT = (TypeError, ValueError, AttributeError, copy.Error)


@dataclass
class OnCpu:
    """A value whose tensors are on the CPU, and the figures of the copy.

    `total_bytes`: of all tensors; `moved_bytes`: those from each device. `left`: which parts were
    not converted.
    """

    value: Any = None
    tensors: int = 0
    total_bytes: int = 0
    moved_bytes: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def named_left(self) -> list[str]:
        """Return a sentence about each kind of part that was not converted."""
        return [f"left as it is: {kind}" for kind in dict.fromkeys(self.left)]

    @property
    def text(self) -> str:
        """Where the tensors came from, in one sentence."""
        values = {"count": self.tensors, "total_mib": self.total_bytes / MIB}
        if not self.tensors:
            return said("0.0 MiB moved: no tensor was found in the value")
        if not self.moved_bytes:
            return said("0.0 MiB moved: everything was already on the CPU (tensors: {count}, "
                        "{total_mib})", **values)
        moved = joined(", ", [
            said("{moved_mib} from {device}", moved_mib=size / MIB, device=name)
            for name, size in self.moved_bytes.items()
        ])
        return said("{moved} moved to the CPU (tensors in all: {count}, {total_mib})",
                    moved=moved, **values)


def to_cpu(value: Any, done: OnCpu | None = None) -> OnCpu:
    """Return `value` with every tensor detached, on the CPU, contiguous and NumPy-backed.

    It searches lists, tuples, dicts (not their keys), their subclasses, dataclasses and ComfyUI's
    nested tensors. A tensor that occurs twice is copied once. Objects of other classes, also sets
    and NumPy arrays of objects, are passed on and named in `left`. It costs RAM for one copy of all
    tensors, even of those on the CPU. `done`: the figures are added to those of an earlier copy.
    Raises ValueError for a value that contains itself or is nested some hundred levels deep.
    """
    done = done or OnCpu()
    try:
        done.value = _Copying(done).copied(value)
    except RecursionError:
        raise ValueError(said(
            "Move to CPU cannot follow a value whose lists or dicts contain themselves, or are "
            "nested some hundred levels deep.")) from None
    return done


class _Copying:
    """One value that is copied; what happened is counted in `done`."""

    def __init__(self, done: OnCpu) -> None:
        self._done = done
        self._seen: dict[int, tuple[Any, Any]] = {}  # by id: the old part, kept alive, and the new

    def copied(self, value: Any) -> Any:
        kind = type(value)
        if issubclass(kind, _LEAVES) or (
                issubclass(kind, np.ndarray) and not value.dtype.hasobject):
            return value
        if id(value) not in self._seen:
            self._seen[id(value)] = value, self._new(value)
        return self._seen[id(value)][1]

    def _new(self, value: Any) -> Any:
        if issubclass(type(value), torch.Tensor):
            return self._tensor(value)
        parts = _parts(value)
        if parts is None:
            return self._passed_on(value)
        try:
            new = value if issubclass(type(value), tuple) else copy.copy(value)
        except _CANNOT:
            return self._passed_on(value)
        made = {name: self.copied(part) for name, part in parts.items()}
        if type(value) not in (list, dict) and all(made[name] is parts[name] for name in parts):
            return value
        try:
            return _filled(new, made)
        except _CANNOT:
            return self._passed_on(value)

    def _passed_on(self, value: Any) -> Any:
        self._done.left.append(f"{type(value).__name__}, passed on unchanged")
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        done, device = self._done, tensor.device
        size = tensor.numel() * tensor.element_size()
        done.tensors += 1
        done.total_bytes += size
        if device.type == "meta":
            done.left.append("a meta tensor, which has no data to move")
            return tensor
        if device.type != "cpu":
            done.moved_bytes[str(device)] = done.moved_bytes.get(str(device), 0) + size
        if is_plain(tensor):
            return numpy_backed(tensor)
        is_torchs_own = type(tensor) is torch.Tensor
        kind = "sparse or nested tensor" if is_torchs_own else type(tensor).__name__
        done.left.append(f"a {kind}, moved to the CPU as it is, not NumPy-backed")
        return tensor.detach().to("cpu")


def _parts(value: Any) -> dict[Any, Any] | None:
    """Return the parts of a container, by name or place; None for any other object."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    if issubclass(kind, dict):
        return dict(value)
    if issubclass(kind, (list, tuple)):
        return dict(enumerate(value))
    is_nested = inspect.getattr_static(value, "is_nested", False) is True  # ComfyUI's nested tensor
    if is_nested and type(inspect.getattr_static(value, "tensors", None)) is list:
        return dict(enumerate(value.tensors))
    return None


def _filled(new: Any, parts: dict[Any, Any]) -> Any:
    """Return a shallow copy with these parts; of a tuple, which cannot be filled, another one."""
    kind = type(new)
    if dataclasses.is_dataclass(kind):
        for name, part in parts.items():
            try:
                setattr(new, name, part)
            except dataclasses.FrozenInstanceError:
                object.__setattr__(new, name, part)
    elif issubclass(kind, dict):
        new.update(parts)
    elif issubclass(kind, list):
        new[:] = parts.values()
    elif issubclass(kind, tuple):
        return getattr(kind, "_make", kind)(list(parts.values()))  # a named tuple has _make
    else:
        new.tensors = list(parts.values())
    return new


def move_to_cpu(value: Any) -> tuple[Any, Report]:
    """Return `value` with every tensor in RAM of its own, and the report.

    The value itself does not change. Its device memory stays allocated while anything refers to it,
    above all ComfyUI's node cache.
    """
    before = snapshot()
    moved = to_cpu(value)
    report = Report(moved.text, tuple(moved.named_left()), before, snapshot())
    note_action("move to CPU", report.freed_mib, report.headline)
    return moved.value, report

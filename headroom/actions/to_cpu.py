"""Bring every tensor inside a value to the CPU, wherever it sits in the structure.

The value itself is never changed: what holds a tensor is rebuilt around the copies, everything
else goes into the new structure as it is.
"""

import copy
import dataclasses
import enum
import types
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from ..base.numpy_backed import is_plain, numpy_backed
from ..measure.journal import note_action
from ..measure.report import Report, mib_text
from ..measure.snapshot import snapshot

_LEAVES = (
    str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device, torch.Size,
    enum.Enum, PurePath, np.ndarray, np.generic,
    types.FunctionType, types.BuiltinFunctionType, types.MethodType,
)


@dataclasses.dataclass
class OnCpu:
    """A value whose tensors are on the CPU, and what that took.

    `total_bytes` are the bytes of all tensors, `moved_bytes` those that came from each device.
    `left` names what was not converted, one sentence each.
    """

    value: Any = None
    tensors: int = 0
    total_bytes: int = 0
    moved_bytes: dict[str, int] = dataclasses.field(default_factory=dict)
    left: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: "OnCpu") -> None:
        """Add the counts of `other` to these; the value stays."""
        self.tensors += other.tensors
        self.total_bytes += other.total_bytes
        for device, amount in other.moved_bytes.items():
            self.moved_bytes[device] = self.moved_bytes.get(device, 0) + amount
        self.left += [sentence for sentence in other.left if sentence not in self.left]

    @property
    def text(self) -> str:
        """Where the tensors came from, in one sentence."""
        counted = f"{self.tensors} tensors ({mib_text(self.total_bytes)})"
        if not self.tensors:
            return "0.0 MiB moved: there is no tensor in the value"
        if not self.moved_bytes:
            return f"0.0 MiB moved: all {counted} were already on the CPU"
        moved = [f"{mib_text(size)} from {name}" for name, size in self.moved_bytes.items()]
        return f"{', '.join(moved)} moved to the CPU, of {counted} in all"


def to_cpu(value: Any) -> OnCpu:
    """Return `value` with every tensor detached, on the CPU, contiguous and NumPy-backed.

    Looks into lists, tuples, named tuples, dicts and their subclasses, sets, deques, dataclasses
    and ComfyUI's nested tensors, to any depth, cycles included. A tensor that appears twice is
    copied once. Objects of unknown classes are passed through and named in `left`.
    Costs RAM for one copy of all tensors, those already on the CPU included.
    """
    walk = _Walk()
    walk.done.value = walk.visit(value, "value")
    return walk.done


class _Walk:
    def __init__(self) -> None:
        self.done = OnCpu()
        self._memo: dict[int, Any] = {}

    def visit(self, value: Any, path: str) -> Any:
        if isinstance(value, torch.Tensor):
            return self._once(value, lambda: self._tensor(value, path))
        if isinstance(value, _LEAVES):
            return value
        if id(value) in self._memo:
            return self._memo[id(value)]
        return self._container(value, path)

    def _once(self, value: Any, make: Callable[[], Any]) -> Any:
        if id(value) not in self._memo:
            self._memo[id(value)] = make()
        return self._memo[id(value)]

    def _tensor(self, tensor: torch.Tensor, path: str) -> torch.Tensor:
        device = tensor.device
        size = tensor.numel() * tensor.element_size()
        self.done.tensors += 1
        self.done.total_bytes += size
        if device.type == "meta":
            self.done.left.append(f"{path}: a meta tensor, which has no data to move")
            return tensor
        if device.type != "cpu":
            self.done.moved_bytes[str(device)] = self.done.moved_bytes.get(str(device), 0) + size
        if is_plain(tensor):
            return numpy_backed(tensor)
        kind = "sparse or nested tensor" if type(tensor) is torch.Tensor else type(tensor).__name__
        self.done.left.append(f"{path}: a {kind}, moved to the CPU as it is, not NumPy-backed")
        return tensor.detach().to("cpu")

    def _container(self, value: Any, path: str) -> Any:
        if type(value) is list:
            return self._list(value, path)
        if type(value) is dict:
            return self._dict(value, path)
        rebuilt = self._rebuilt(value, path)
        self._memo[id(value)] = rebuilt
        return rebuilt

    def _list(self, value: list[Any], path: str) -> list[Any]:
        # Known before its items are, so that a list inside itself ends in the copy.
        new: list[Any] = []
        self._memo[id(value)] = new
        new.extend(self._items(value, path))
        return new

    def _dict(self, value: dict[Any, Any], path: str) -> dict[Any, Any]:
        new: dict[Any, Any] = {}
        self._memo[id(value)] = new
        for key, item in value.items():
            new[key] = self.visit(item, f"{path}[{key!r}]")
        return new

    def _items(self, items: Iterable[Any], path: str) -> list[Any]:
        return [self.visit(item, f"{path}[{index}]") for index, item in enumerate(items)]

    def _rebuilt(self, value: Any, path: str) -> Any:
        """Rebuild a container that is not a plain list or dict; one without tensors stays."""
        if dataclasses.is_dataclass(value):
            return self._dataclass(value, path)
        if isinstance(value, dict):
            return self._dict_subclass(value, path)
        if isinstance(value, (list, tuple, set, frozenset, deque)):
            old = list(value)
            items = self._items(old, path)
            return value if _same(old, items) else self._sequence(value, items, path)
        if getattr(value, "is_nested", False) is True and isinstance(value.tensors, list):
            nested = copy.copy(value)
            nested.tensors = self._items(value.tensors, f"{path}.tensors")
            return nested
        return self._leave(value, path)

    def _sequence(self, value: Any, items: list[Any], path: str) -> Any:
        if isinstance(value, deque):
            return type(value)(items, value.maxlen)
        make = getattr(type(value), "_make", type(value))
        try:
            return make(items)
        except TypeError:
            return self._leave(value, path)

    def _dict_subclass(self, value: dict[Any, Any], path: str) -> Any:
        items = {key: self.visit(item, f"{path}[{key!r}]") for key, item in value.items()}
        if _same(value.values(), items.values()):
            return value
        rebuilt = copy.copy(value)
        rebuilt.update(items)
        return rebuilt

    def _dataclass(self, value: Any, path: str) -> Any:
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
        old = [getattr(value, name) for name in names]
        new = [self.visit(item, f"{path}.{name}") for name, item in zip(names, old, strict=True)]
        if _same(old, new):
            return value
        rebuilt = copy.copy(value)
        for name, item in zip(names, new, strict=True):
            try:
                setattr(rebuilt, name, item)
            except dataclasses.FrozenInstanceError:
                object.__setattr__(rebuilt, name, item)
        return rebuilt

    def _leave(self, value: Any, path: str) -> Any:
        self.done.left.append(f"{path}: of class {type(value).__name__}, passed through as it is")
        return value


def _same(old: Iterable[Any], new: Iterable[Any]) -> bool:
    return all(before is after for before, after in zip(old, new, strict=True))


MAX_NAMED = 10


def move_to_cpu(value: Any) -> tuple[Any, Report]:
    """Return `value` with every tensor in RAM of its own, and the report.

    The value that came in is not changed. What still refers to it, ComfyUI's node cache first of
    all, keeps its device memory alive until it lets go.
    """
    before = snapshot()
    moved = to_cpu(value)
    named = [f"left as it is: {sentence}" for sentence in moved.left[:MAX_NAMED]]
    if len(moved.left) > MAX_NAMED:
        named.append(f"and {len(moved.left) - MAX_NAMED} more left as they are")
    report = Report(moved.text, tuple(named), before, snapshot())
    note_action("move to CPU", report.freed_mib, report.headline)
    return moved.value, report

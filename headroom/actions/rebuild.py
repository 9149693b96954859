"""Rebuild a value around replaced parts: lists, tuples, dicts, dataclasses and nested tensors.

Every plain list and dict is copied; other containers are copied if a part of them was replaced.
Attributes are looked up on an object's class only: some objects raise an error for each attribute
that they lack.
"""

import copy
import dataclasses
import enum
import inspect
import types
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from ..base.choices import shown

MAX_PATH = 400  # characters of a path in a sentence

_LEAVES = (
    str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device, torch.Size,
    enum.Enum, PurePath, np.generic,
    types.FunctionType, types.BuiltinFunctionType, types.MethodType,
)
# Errors from copying, creating or filling an unusual subclass of a container.
_CANNOT = (TypeError, ValueError, AttributeError, copy.Error)


class Rebuilding:
    """One value that is rebuilt.

    `visit`(part, path) gets, once, each part that is neither a container nor a plain value, and
    each container that cannot be copied or filled. It returns the replacement, or the part itself.
    """

    def __init__(self, visit: Callable[[Any, str], Any]) -> None:
        self._visit = visit
        self._seen: dict[int, tuple[Any, Any]] = {}  # by id: the old part, kept alive, and the new

    def rebuild(self, value: Any, path: str = "value") -> Any:
        """Return the new value. Raises RecursionError if it is some hundred levels deep."""
        if _is_leaf(value):
            return value
        if id(value) not in self._seen:
            kind = type(value)
            if _has_parts(value):
                new = self._filled(value, path)
            elif issubclass(kind, tuple):
                new = self._made(value, path)
            else:
                new = self._visit(value, _short(path))
            self._seen[id(value)] = value, new
        return self._seen[id(value)][1]

    def _made(self, value: Any, path: str) -> Any:
        items = [self.rebuild(item, f"{path}[{number}]") for number, item in enumerate(value)]
        if id(value) in self._seen:  # it was made inside its own list, in a cycle
            return self._seen[id(value)][1]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        make = getattr(type(value), "_make", type(value))  # a named tuple has _make
        return self._attempt(value, path, lambda: make(items))

    def _filled(self, value: Any, path: str) -> Any:
        """Fill a copy, which its own parts may refer to already."""
        new = self._attempt(value, path, lambda: copy.copy(value))
        self._seen[id(value)] = value, new
        if new is value:
            return value
        parts = _parts(value)
        made = {name: self.rebuild(part, f"{path}{_step(value, name)}")
                for name, part in parts.items()}
        if type(value) in (list, dict) or any(made[name] is not parts[name] for name in parts):
            return self._attempt(value, path, lambda: _fill(new, made))
        return value

    def _attempt(self, value: Any, path: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except _CANNOT:
            return self._visit(value, _short(path))


def _is_leaf(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, _LEAVES) or (
        issubclass(kind, np.ndarray) and not value.dtype.hasobject)


def _has_parts(value: Any) -> bool:
    kind = type(value)
    return dataclasses.is_dataclass(kind) or issubclass(kind, (list, dict)) or (
        inspect.getattr_static(value, "is_nested", False) is True  # ComfyUI's nested tensor
        and type(inspect.getattr_static(value, "tensors", None)) is list)


def _parts(value: Any) -> dict[Any, Any]:
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    if issubclass(kind, dict):
        return dict(value)
    return dict(enumerate(value if issubclass(kind, list) else value.tensors))


def _step(value: Any, name: Any) -> str:
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return f".{name}"
    return f"[{shown(name)}]" if issubclass(kind, (list, dict)) else f".tensors[{name}]"


def _fill(new: Any, parts: dict[Any, Any]) -> Any:
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
    else:
        new.tensors = list(parts.values())
    return new


def _short(path: str) -> str:
    half = MAX_PATH // 2
    return path if len(path) <= MAX_PATH else f"{path[:half]}...{path[-half:]}"

"""The containers that values on ComfyUI's wires are made of: what is inside, and how to rebuild.

All is asked of an object's class: some objects raise at every attribute that they lack.
"""

import copy
import dataclasses
import enum
import inspect
import types
from collections import deque
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import torch

from ..base.choices import shown

_LEAVES = (
    str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device, torch.Size,
    enum.Enum, PurePath, np.generic,
    types.FunctionType, types.BuiltinFunctionType, types.MethodType,
)


class Kind(NamedTuple):
    """How one kind of container is taken apart and put together again.

    `items` lists what is inside, `step` says how one gets to the item of that number. What can be
    changed has `fill`(old, new, items), where `new` is a shallow copy; the others have `make`.
    """

    items: Callable[[Any], list[Any]]
    step: Callable[[Any, int], str]
    fill: Callable[[Any, Any, list[Any]], None] | None = None
    make: Callable[[Any, list[Any]], Any] | None = None
    shallow: Callable[[Any], Any] = copy.copy


def is_leaf(value: Any) -> bool:
    """Return whether `value` holds nothing that could be on a device."""
    cls = type(value)
    return issubclass(cls, _LEAVES) or (issubclass(cls, np.ndarray) and not value.dtype.hasobject)


def kind_of(value: Any) -> Kind | None:
    """Return how to take `value` apart, None for what is no container that we know."""
    cls = type(value)
    if dataclasses.is_dataclass(cls):
        return _DATACLASS
    for base, kind in _KINDS.items():
        if issubclass(cls, base):
            return kind
    if cls is np.ndarray and value.dtype == object:
        return _ARRAY
    is_nested = inspect.getattr_static(value, "is_nested", False) is True
    if is_nested and type(inspect.getattr_static(value, "tensors", None)) is list:
        return _NESTED
    return None


def _index(_value: Any, number: int) -> str:
    return f"[{number}]"


def _fill_list(_old: Any, new: list[Any], items: list[Any]) -> None:
    new[:] = items


def _fill_set(_old: Any, new: set[Any], items: list[Any]) -> None:
    new.clear()
    new.update(items)


def _fill_deque(_old: Any, new: deque[Any], items: list[Any]) -> None:
    new.clear()
    new.extend(items)


def _make_sequence(value: Any, items: list[Any]) -> Any:
    return getattr(type(value), "_make", type(value))(items)


def _key(value: Any, number: int) -> str:
    return f"[{shown(list(value)[number])}]"


def _fill_dict(old: dict[Any, Any], new: dict[Any, Any], items: list[Any]) -> None:
    new.update(zip(old, items, strict=True))


def _field_names(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value) if _has(value, field.name)]


def _has(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def _fields(value: Any) -> list[Any]:
    return [object.__getattribute__(value, name) for name in _field_names(value)]


def _fill_dataclass(old: Any, new: Any, items: list[Any]) -> None:
    for name, item in zip(_field_names(old), items, strict=True):
        try:
            setattr(new, name, item)
        except dataclasses.FrozenInstanceError:
            object.__setattr__(new, name, item)


def _fill_array(_old: Any, new: Any, items: list[Any]) -> None:
    flat = new.reshape(-1)
    for number, item in enumerate(items):
        flat[number] = item


def _fill_nested(_old: Any, new: Any, items: list[Any]) -> None:
    new.tensors = items


_KINDS: dict[type, Kind] = {
    dict: Kind(lambda value: list(value.values()), _key, fill=_fill_dict),
    list: Kind(list, _index, fill=_fill_list),
    tuple: Kind(list, _index, make=_make_sequence),
    set: Kind(list, _index, fill=_fill_set),
    frozenset: Kind(list, _index, make=_make_sequence),
    deque: Kind(list, _index, fill=_fill_deque),
}
_DATACLASS = Kind(
    _fields, lambda value, number: f".{_field_names(value)[number]}", fill=_fill_dataclass
)
_ARRAY = Kind(
    lambda value: list(value.reshape(-1)), _index, fill=_fill_array,
    shallow=lambda value: value.copy(),
)
_NESTED = Kind(
    lambda value: list(value.tensors), lambda _value, number: f".tensors[{number}]",
    fill=_fill_nested,
)

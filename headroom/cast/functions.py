"""Find what would use the original's weights in a copy: functions, and objects beside the model.

Python's deepcopy does not copy functions. So a `forward` that another pack wrapped, or a hook,
would still use the original's weights. Bound methods and partials are copied with their objects.
"""

import functools
import gc
import types
from collections.abc import Collection, Iterator
from typing import Any

import torch

from ..base.inputs import attribute
from ..base.said import said
from ..models.unmanaged import is_restore_hook

DEEPEST = 5
_WEIGHTS = ("_parameters", "_buffers", "_modules")
_TAKEN_AS_THEY_ARE: tuple[type, ...] = (types.FunctionType, functools._lru_cache_wrapper)
_COPIED: tuple[type, ...] = (types.MethodType, functools.partial)
_FOLLOWED = (*_TAKEN_AS_THEY_ARE, *_COPIED, types.CellType, dict, list, tuple, set)
_NO_OBJECTS = (*_TAKEN_AS_THEY_ARE, *_COPIED, dict, list, tuple, set, type, types.ModuleType,
               torch.nn.Module, torch.Tensor)


def refuse_functions(module: torch.nn.Module, is_read_again: bool = False) -> None:
    """Raise ValueError with the attribute's name if a part of `module` has a function over parts.

    It searches the attributes of every part, hooks included, their lists and dicts, and the
    attributes of objects there. `is_read_again`: the model is read from its file, so it has no
    bound methods of others.
    """
    parts = {id(part) for part in [*module.modules(), *module.parameters(), *module.buffers()]}
    kinds = _TAKEN_AS_THEY_ARE + (_COPIED if is_read_again else ())
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if name not in _WEIGHTS and _has_one_over(parts, kinds, value):
                where = f"{prefix}.{name}" if prefix else name
                raise ValueError(said(
                    "Cast bf16 cannot cast this {model}: its {where} is a function over the "
                    "original module and would still use its weights. If a node behind the loader "
                    "added it, connect Cast bf16 before that node.",
                    model=type(module).__name__, where=where))


def reaches_a_part(value: Any, module: torch.nn.Module) -> bool:
    """Return whether a part of `module` is reached from `value`."""
    return reaches(value, {id(part) for part in module.modules()})


def reaches(value: Any, ids: Collection[int]) -> bool:
    """Return whether an object of these `ids` is reached from `value`: through functions,
    containers, and objects in objects to a depth of DEEPEST, not through models and patchers."""
    level, seen = [value], set[int]()
    for _ in range(DEEPEST):
        reached = list(_reached(level, seen))
        if any(id(item) in ids for item in reached):
            return True
        level = [value for item in reached for value in attributes_of(item)]
    return False


def _has_one_over(parts: set[int], kinds: tuple[type, ...], value: Any) -> bool:
    functions = [item for item in _reached([value, *attributes_of(value)], set())
                 if isinstance(item, kinds) and not is_restore_hook(item)]
    return any(id(item) in parts for item in _reached(functions, set()))


def attributes_of(value: Any) -> list[Any]:
    """Return the attributes of an object; none of a patcher, which always refers to its model."""
    if issubclass(type(value), _NO_OBJECTS) or callable(attribute(value, "is_clone")):
        return []
    own = attribute(value, "__dict__")
    return list(own.values()) if isinstance(own, dict) else []


def _reached(values: list[Any], seen: set[int]) -> Iterator[Any]:
    """Yield what is not in `seen` of `values`, and everything that functions and containers among
    them refer to; the ids of these get there."""
    stack = list(values)
    while stack:
        item = stack.pop()
        if id(item) not in seen:
            seen.add(id(item))
            yield item
            # Not the words of a tokenizer: there are a hundred thousand.
            stack += [one for one in _behind(item) if type(one) not in (str, int)]


def _behind(value: Any) -> list[Any]:
    """Return what a function or container refers to; of globals only those that it names."""
    if not issubclass(type(value), _FOLLOWED):
        return []
    found = gc.get_referents(value)
    if isinstance(value, types.FunctionType):
        named = [value.__globals__.get(name) for name in value.__code__.co_names]
        everybodys = (id(value.__globals__), id(getattr(value, "__builtins__", None)))
        found = [one for one in found if id(one) not in everybodys] + [
            one for one in named if isinstance(one, (torch.nn.Module, torch.Tensor))]
    return found

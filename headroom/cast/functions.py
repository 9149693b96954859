"""Functions that a module carries beside its weights: its copy's must speak for the copy.

Python's deepcopy takes a function as it is. A `forward` that was wrapped by another pack, or a
hook, would go on using the weights of the module that it was made for.
"""

import functools
import types
from collections.abc import Collection, Iterator
from typing import Any

import torch

from ..base.copies import Copies, follow, is_filled
from ..base.inputs import attribute

_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
_CONTAINERS = (dict, list, tuple, set)
_WEIGHTS = ("_parameters", "_buffers", "_modules")


def repoint(module: torch.nn.Module, copied: torch.nn.Module, copies: Copies) -> None:
    """Replace the functions in `copied` that use parts of `module` by ones that use the copies.

    `copies` maps the id of each part and weight of `module` to its copy. Looks at the attributes
    of every part, hooks among them, into their lists and dicts, and at those of objects that were
    copied with the part. Raises ValueError, naming the attribute, for what cannot be repointed.
    """
    for old, (prefix, part) in zip(module.modules(), copied.named_modules(), strict=True):
        for name, value in _own(part):
            if _is_object(value) and value is not vars(old).get(name):
                new = _repointed(vars(value), copies)
            else:
                new = _repointed(value, copies)
                vars(part)[name] = new
            if reaches(new, copies) or name == "forward" and _uses_another(new, copied):
                raise refused(copied, prefix, name)


def find_function_over(module: torch.nn.Module) -> tuple[str, str] | None:
    """Return (name of the part, attribute) of a function that uses parts of `module`, or None."""
    parts = {id(part) for part in [*module.modules(), *module.parameters(), *module.buffers()]}
    for prefix, part in module.named_modules():
        for name, value in _own(part):
            held = vars(value).values() if _is_object(value) else [value]
            if any(isinstance(item, _FUNCTIONS) and reaches(item, parts) for item in held):
                return prefix, name
    return None


def refused(module: torch.nn.Module, prefix: str, name: str) -> ValueError:
    """Return the error for a function that would go on using the original's weights."""
    where = f"{prefix}.{name}" if prefix else name
    return ValueError(
        f"Cast bf16 cannot cast this {type(module).__name__}: its {where} is a function over the "
        "original module or another one and would go on using that one's weights; connect the "
        "model as its loader gives it, before nodes that change it."
    )


def _own(part: torch.nn.Module) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in vars(part).items() if name not in _WEIGHTS]


def _is_object(value: Any) -> bool:
    """Return whether `value` is an object with attributes, but no module and no patcher.

    A patcher refers to its model by its nature.
    """
    others = (*_FUNCTIONS, *_CONTAINERS, type, types.ModuleType, torch.nn.Module, torch.Tensor)
    is_patcher = callable(attribute(value, "is_clone"))
    has_some = isinstance(attribute(value, "__dict__"), dict)
    return has_some and not isinstance(value, others) and not is_patcher


def _repointed(value: Any, copies: Copies) -> Any:
    """Return a function repointed; the dicts and lists of the copy are changed inside."""
    if isinstance(value, _FUNCTIONS):
        return follow(value, copies)
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, _FUNCTIONS):
                value[key] = follow(item, copies)
    elif type(value) is list:
        value[:] = [follow(item, copies) if isinstance(item, _FUNCTIONS) else item
                    for item in value]
    return value


def reaches(value: Any, parts: Collection[int]) -> bool:
    """Return whether a function, or a container of functions, can get at one of `parts` (ids)."""
    return any(id(item) in parts for item in _reached(value))


def _uses_another(forward: Any, module: torch.nn.Module) -> bool:
    """Return whether a forward that was set uses the weights of a module outside of `module`."""
    own = {id(part) for part in module.modules()}
    return any(isinstance(item, torch.nn.Module) and id(item) not in own
               and next(item.parameters(), None) is not None for item in _reached(forward))


def _reached(value: Any) -> Iterator[Any]:
    seen: set[int] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if id(item) not in seen:
            seen.add(id(item))
            yield item
            stack += _behind(item)


def _behind(value: Any) -> list[Any]:
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.FunctionType):
        return _used_by(value)
    if isinstance(value, functools._lru_cache_wrapper):
        return [value.__wrapped__]
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if type(value) in (list, tuple, set) else []


def _used_by(function: types.FunctionType) -> list[Any]:
    """Return what a function holds: its closure, its defaults, and the globals that it names."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if is_filled(cell)]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    modules = [value for value in named if isinstance(value, (torch.nn.Module, torch.Tensor))]
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(),
            *modules]

"""A private copy of an nn.Module in other dtypes, made tensor by tensor."""

import copy
import types
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..base.tensors import storage_key
from ..models.lazy_restore import is_comeback
from .layers import forget
from .rules import FLOATS, Wanted
from .tensor import Rounding, cast_tensor

Twins = dict[int, Any]


def copy_module(
    module: torch.nn.Module,
    wanted: Iterable[Wanted],
    rounding: Rounding,
    values: Mapping[str, torch.Tensor] | None = None,
    shared: Iterable[Any] = (),
) -> tuple[torch.nn.Module, Twins]:
    """Return a copy of `module` with the wanted dtypes, and {id of each old part: its new one}.

    `values` replaces the present weights of that name (ComfyUI's backups of patched ones).
    `shared` objects are not copied. Peak memory: the original, the copy, some MiB. Tied weights
    stay tied; nothing of `module` changes. Raises CastOverflow before anything is handed out, and
    ValueError for a module that Python cannot copy.
    """
    memo: dict[int, Any] = {id(item): item for item in shared}
    _copy_parameters(wanted, rounding, values or {}, memo)
    for buffer in module.buffers():
        memo[id(buffer)] = buffer.detach().clone()
    try:
        twin = copy.deepcopy(module, memo)
    except torch.OutOfMemoryError:
        raise
    except (TypeError, AttributeError, RuntimeError, copy.Error) as error:
        raise ValueError(
            f"Cast bf16 cannot make a private copy of this {type(module).__name__} ({error}): "
            "connect the model as its loader gives it, before nodes that change it."
        ) from error
    pairs = zip(module.modules(), twin.modules(), strict=True)
    twins: Twins = {id(old): new for old, new in pairs}
    for part in twin.modules():
        forget(part)
        _drop_comebacks(part)
    return twin, twins


def _copy_parameters(
    wanted: Iterable[Wanted],
    rounding: Rounding,
    values: Mapping[str, torch.Tensor],
    memo: dict[int, Any],
) -> None:
    done: dict[tuple[Any, ...], torch.Tensor] = {}
    for item in wanted:
        old = values.get(item.name, item.parameter).detach()
        key = (storage_key(old), old.storage_offset(), old.shape, old.stride(), item.target)
        if key[0] is None or key not in done:
            change = old.dtype in FLOATS and item.target != old.dtype
            new = cast_tensor(item.name, old, item.target, rounding) if change else old.clone()
            done[key] = new
        memo[id(item.parameter)] = torch.nn.Parameter(done[key], item.parameter.requires_grad)


def _drop_comebacks(part: torch.nn.Module) -> None:
    """Remove the hooks that would bring the original, not this copy, back to its device."""
    for key, hook in list(part._forward_pre_hooks.items()):
        if is_comeback(hook):
            del part._forward_pre_hooks[key]
            part._forward_pre_hooks_with_kwargs.pop(key, None)


def retell_dtype(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Let plain attributes of `module` that name its dtype (`dtype`, `dtypes`) name the new one.

    Models cast their inputs to what these say; weights alone would leave the compute dtype.
    """
    for part in module.modules():
        named = vars(part)
        if named.get("dtype") in FLOATS:
            named["dtype"] = dtype
        if isinstance(named.get("dtypes"), set) and named["dtypes"] <= set(FLOATS):
            named["dtypes"] = {dtype}


def follow(value: Any, twins: Twins) -> Any:
    """Return `value` with every old part replaced by its twin, or `value` itself if it has none.

    Looks into bound methods, functions' closures, tuples, lists and dicts.
    """
    if id(value) in twins:
        return twins[id(value)]
    if isinstance(value, types.MethodType) and id(value.__self__) in twins:
        return types.MethodType(value.__func__, twins[id(value.__self__)])
    if isinstance(value, types.FunctionType) and value.__closure__:
        return _follow_function(value, twins)
    if type(value) in (list, tuple, set):
        items = [follow(item, twins) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if type(value) is dict:
        changed = {key: follow(item, twins) for key, item in value.items()}
        return value if all(changed[key] is value[key] for key in value) else changed
    return value


def _follow_function(function: types.FunctionType, twins: Twins) -> types.FunctionType:
    """Return the function over the twins of what its closure holds; itself where it holds none."""
    cells = function.__closure__ or ()
    filled = [cell for cell in cells if _is_filled(cell)]
    if not any(id(cell.cell_contents) in twins for cell in filled):
        return function
    renewed = tuple(
        types.CellType(twins.get(id(cell.cell_contents), cell.cell_contents))
        if _is_filled(cell) else cell
        for cell in cells
    )
    twin = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, renewed
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True

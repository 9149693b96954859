"""Find the copies of a model's parts wherever something refers to the originals."""

import types
from typing import Any

Copies = dict[int, Any]  # id of an original part -> its copy


def follow(value: Any, copies: Copies) -> Any:
    """Return `value` with every old part replaced by its copy, or `value` itself if it has none.

    Looks into bound methods, functions' closures, tuples, lists and dicts.
    """
    if id(value) in copies:
        return copies[id(value)]
    if isinstance(value, types.MethodType) and id(value.__self__) in copies:
        return types.MethodType(value.__func__, copies[id(value.__self__)])
    if isinstance(value, types.FunctionType) and value.__closure__:
        return _follow_function(value, copies)
    if type(value) in (list, tuple, set):
        items = [follow(item, copies) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if type(value) is dict:
        changed = {key: follow(item, copies) for key, item in value.items()}
        return value if all(changed[key] is value[key] for key in value) else changed
    return value


def _follow_function(function: types.FunctionType, copies: Copies) -> types.FunctionType:
    """Return the function over the copies of what its closure holds; itself where it holds none."""
    cells = function.__closure__ or ()
    filled = [cell for cell in cells if _is_filled(cell)]
    if not any(id(cell.cell_contents) in copies for cell in filled):
        return function
    renewed = tuple(
        types.CellType(copies.get(id(cell.cell_contents), cell.cell_contents))
        if _is_filled(cell) else cell
        for cell in cells
    )
    copied = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, renewed
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True

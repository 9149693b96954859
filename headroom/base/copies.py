"""Replace references to a model's parts by references to their copies."""

import functools
import types
from typing import Any

Copies = dict[int, Any]  # id of an original part -> its copy


def follow(value: Any, copies: Copies) -> Any:
    """Return `value` with every old part replaced by its copy; `value` itself if it has none.

    It searches bound methods, functions' closures and defaults, partials, tuples, lists, sets and
    dicts. A function that refers to itself is followed once; what is inside of it stays.
    """
    return _follow(value, copies, frozenset())


def _follow(value: Any, copies: Copies, above: frozenset[int]) -> Any:
    if id(value) in copies:
        return copies[id(value)]
    if id(value) in above:
        return value
    above |= {id(value)}
    if isinstance(value, types.MethodType):
        owner = _follow(value.__self__, copies, above)
        return value if owner is value.__self__ else types.MethodType(value.__func__, owner)
    if isinstance(value, types.FunctionType):
        return _follow_function(value, copies, above)
    if type(value) is functools.partial:
        parts = (value.func, value.args, value.keywords)
        new = _follow(parts, copies, above)
        return value if new is parts else functools.partial(new[0], *new[1], **new[2])
    if type(value) in (list, tuple, set):
        items = [_follow(item, copies, above) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if type(value) is dict:
        changed = {key: _follow(item, copies, above) for key, item in value.items()}
        return value if all(changed[key] is value[key] for key in value) else changed
    return value


def _follow_function(
    function: types.FunctionType, copies: Copies, above: frozenset[int]
) -> types.FunctionType:
    """Return the function over the copies; the function itself if it refers to no old part."""
    cells = function.__closure__ or ()
    renewed = tuple(_follow_cell(cell, copies, above) for cell in cells)
    defaults = _follow(function.__defaults__, copies, above)
    keyword_defaults = _follow(function.__kwdefaults__, copies, above)
    if (all(new is old for new, old in zip(renewed, cells, strict=True))
            and defaults is function.__defaults__
            and keyword_defaults is function.__kwdefaults__):
        return function
    copied = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, defaults, renewed
    )
    copied.__kwdefaults__ = keyword_defaults
    vars(copied).update(vars(function))
    return copied


def _follow_cell(
    cell: types.CellType, copies: Copies, above: frozenset[int]
) -> types.CellType:
    try:
        content = cell.cell_contents
    except ValueError:  # nothing is in it yet
        return cell
    new = _follow(content, copies, above)
    return cell if new is content else types.CellType(new)

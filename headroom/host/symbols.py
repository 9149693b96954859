"""Check which symbols of the table in contract.py the running ComfyUI has, with our arguments."""

import ast
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any


def broken(owners: Mapping[str, Iterable[str]]) -> tuple[list[str], list[str]]:
    """Return (what this ComfyUI lacks or takes differently, the "?" symbols that it lacks).

    `owners`: as in a feature of CONTRACT. A "?" symbol that exists but takes other parameters is in
    the first list, unless the table has another call of it that fits.
    """
    failed: tuple[list[str], list[str]] = [], []
    for path, members in owners.items():
        module, owner = _find(path.removeprefix("?"))
        for member in members:
            name = member.removeprefix("?")
            bare = name.partition("(")[0]
            if owner is None or not _fits(module, owner, name):
                optional = path.startswith("?") or member.startswith("?")
                calls = [one for one in members if one.removeprefix("?").partition("(")[0] == bare]
                is_otherwise = hasattr(owner, bare) and not any(
                    _fits(module, owner, one.removeprefix("?")) for one in calls)
                failed[optional and not is_otherwise].append(f"{path.removeprefix('?')}.{name}")
    return failed


def _find(path: str) -> tuple[ModuleType | None, Any]:
    """Return the module that has what `path` names, and that object; Nones if it does not exist."""
    try:
        found = importlib.import_module(path)
        return found, found
    except ImportError:
        parent, _, name = path.rpartition(".")
        module, owner = _find(parent) if parent else (None, None)
        return module, getattr(owner, name, None)


def _fits(module: ModuleType | None, owner: Any, text: str) -> bool:
    """Return whether `owner` has this attribute, or takes this call."""
    name, bracket, _ = text.partition("(")
    if not bracket:
        return hasattr(owner, name) or _is_set(module, owner, name)
    wanted = ast.parse(text, mode="eval").body
    assert isinstance(wanted, ast.Call)
    function = getattr(owner, name, None)
    if function is None:
        return False
    is_method = inspect.isclass(owner) and inspect.isfunction(
        inspect.getattr_static(owner, name, None))
    given = [one for one in wanted.args if isinstance(one, ast.Name)]
    signature = inspect.signature(function)
    bind = signature.bind if given == wanted.args else signature.bind_partial
    try:
        bind(*["_"] * (len(given) + is_method), **{str(one.arg): "_" for one in wanted.keywords})
    except TypeError:
        return False
    return True


def _is_set(module: ModuleType | None, owner: Any, name: str) -> bool:
    """Return whether a function of `owner`, a class or a module, uses an attribute of this name:
    objects get such attributes only when they are created.
    """
    return any(
        name in code.co_names
        for place in getattr(owner, "__mro__", [module]) for code in _code_of(vars(place))
    )


def _code_of(names: Mapping[str, Any]) -> Iterator[CodeType]:
    """Yield the code of the functions, properties and classes under these names."""
    for value in list(names.values()):
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            yield code
        elif inspect.isclass(value) and value.__module__ == names.get("__name__"):
            yield from _code_of(vars(value))

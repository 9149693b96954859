"""What torch refuses because of a dtype runs in a wider one: constants, codebooks, missing kernels.

A forward makes float32 tensors of its own, or takes a weight as it lies, and hands both to an
operation that wants one dtype; or to one that has no kernel for bfloat16. No plan can see that
before it happens. So a copy's own code runs in a torch function mode, which asks torch first and
makes a call anew that torch refuses.
"""

import abc
import copyreg
import inspect
import re
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..base.tensors import tensors_within
from .dtypes import FLOATS

# Torch's layers take what their hooks give them; these libraries' models run in every dtype.
_COPES = ("torch", "comfy", "diffusers", "diffsynth", "transformers")
_REFUSES = re.compile(
    "dtype|data ?type|scalar ?type|same type|not implemented for|b?float16|half|low precision"
    "|type promoting|single or double", re.IGNORECASE,
)
_SCRIPTED = re.compile("TorchScript interpreter")
_OUT_OF_MEMORY = re.compile("out of memory", re.IGNORECASE)
_is_compiling: Any = getattr(torch.compiler, "is_compiling", lambda: False)  # since torch 2.3
_running = threading.local()
_made: dict[type[Any], type[Any]] = {}


def run_promoting(module: torch.nn.Module) -> None:
    """Let every part of `module` that may not cope by itself run so, by a class of its own.

    The class has the name of the old one, which is its base. Only for a copy that nobody else has.
    Cost: some µs for each call of torch, and a wider copy of the tensors in a call that it refuses.
    """
    for part in module.modules():
        if type(part).__module__.partition(".")[0] not in _COPES and _can_have_more(type(part)):
            part.__class__ = _promoting(type(part))


def _asked(
    _mode: Any, func: Any, _types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Ask torch; what it refuses for a dtype is asked for once more, in the widest of them."""
    kwargs = kwargs or {}
    refusal: Exception
    try:
        return func(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError) as error:
        if not _is_refusal(error):
            raise
        refusal = error
    try:  # outside of the handler, which would keep what the failed call had made
        dtypes = {tensor.dtype for tensor in tensors_within([args, kwargs])} & set(FLOATS)
        if not dtypes - {_widest(dtypes)}:
            raise refusal
        return _in_widest(func, args, kwargs, dtypes)
    finally:
        del refusal


class _Calls(TorchFunctionMode):
    """Asks for each call of torch that Python makes."""

    __torch_function__ = _asked


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Asks for each operator, also where TorchScript calls it: several times as slow."""

    __torch_dispatch__ = _asked


def _is_refusal(error: Exception) -> bool:
    text = str(error)
    return bool(_REFUSES.search(text)) and not _OUT_OF_MEMORY.search(text)


def _widest(dtypes: set[torch.dtype]) -> torch.dtype:
    return torch.float64 if torch.float64 in dtypes else torch.float32


def _in_widest(func: Any, args: Any, kwargs: dict[str, Any], dtypes: set[torch.dtype]) -> Any:
    """Make the call in float32, or float64 where one is; what it writes to keeps its dtype.

    Where there was one dtype, the result has it too; where there were two, torch's rule holds.
    """
    wide = _widest(dtypes)
    made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    result = func(*_in(args, wide, made), **_in(kwargs, wide, made))
    for written in _written(func, args, kwargs):
        if id(written) in made:
            written.copy_(made[id(written)][1])
    olds = {id(new): old for old, new in made.values()}
    back = next(iter(dtypes)) if len(dtypes) == 1 else wide
    return _given_back(result, olds, wide, back)


def _in(value: Any, wide: torch.dtype, made: dict[int, Any]) -> Any:
    """Return `value` with its floats in `wide`; `made` gets the tensors and what they became."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in FLOATS or value.dtype == wide:
            return value
        return made.setdefault(id(value), (value, value.to(wide)))[1]
    if type(value) in (list, tuple):
        return type(value)(_in(item, wide, made) for item in value)
    if type(value) is dict:
        return {key: _in(item, wide, made) for key, item in value.items()}
    return value


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    name = getattr(func, "__name__", "").partition(".")[0]
    in_place = re.fullmatch(r"__(i\w+|setitem)__|\w*[^_]_", name) or kwargs.get("inplace")
    yield from tensors_within(args[:1] if in_place else ())
    yield from tensors_within([kwargs.get("out")])


def _given_back(
    value: Any, olds: dict[int, torch.Tensor], wide: torch.dtype, back: torch.dtype
) -> Any:
    if isinstance(value, torch.Tensor):
        if id(value) in olds:
            return olds[id(value)]
        return value.to(back) if value.dtype == wide else value
    if type(value) in (list, tuple):
        return type(value)(_given_back(item, olds, wide, back) for item in value)
    return value


# ---------------------------------------------------------------- classes


def _can_have_more(base: type[Any]) -> bool:
    """Return whether a further class below `base` is nobody's business, as of a registry."""
    listens = any("__init_subclass__" in vars(kind) for kind in base.__mro__
                  if kind.__module__ not in ("builtins", "typing"))
    return type(base) in (type, abc.ABCMeta) and not listens


def _promoting(base: type[Any]) -> type[Any]:
    if base in _made.values():  # of a cast of a cast
        return base
    if base not in _made:
        names = {"__module__": base.__module__, "__qualname__": base.__qualname__,
                 "__doc__": base.__doc__}
        methods = {name: _promoted(method) for name, method in _methods(base)}
        own = {**methods, **names, "__reduce_ex__": _reduced_as(base)}
        kind: Any = type(base)
        _made[base] = kind(base.__name__, (base,), own)
    return _made[base]


def _reduced_as(base: Any) -> Callable[..., Any]:
    """Return how such an object is pickled and copied: its class cannot be found by its name."""
    def reduced(self: Any, protocol: Any) -> Any:
        made = base.__reduce_ex__(self, protocol)
        is_usual = made[0] is getattr(copyreg, "__newobj__")  # noqa: B009 - in no type stub
        return (_new, (base,), *made[2:]) if is_usual else made

    return reduced


def _new(base: type[Any]) -> Any:
    return object.__new__(_promoting(base))


def _methods(base: type[Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods that are not those of every module: `forward`, `decode` and such."""
    for name in dir(base):
        method = inspect.getattr_static(base, name)
        of_every_module = name != "forward" and hasattr(torch.nn.Module, name)
        if inspect.isfunction(method) and not name.startswith("_") and not of_every_module \
                and not inspect.isgeneratorfunction(method):
            yield name, method


def _promoted(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def promoted(*args: Any, **kwargs: Any) -> Any:
        if getattr(_running, "is_on", False) or _is_compiling():
            return method(*args, **kwargs)
        _running.is_on = True
        try:
            return _run(method, args, kwargs)
        finally:
            _running.is_on = False

    return promoted


def _run(method: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Call `method`; once more from the start where a scripted function in it was refused."""
    try:
        with _Calls():
            return method(*args, **kwargs)
    except RuntimeError as error:
        if not (_SCRIPTED.search(str(error)) and _is_refusal(error)):
            raise
    with _Calls(), _Operators():  # type: ignore[no-untyped-call]
        return method(*args, **kwargs)

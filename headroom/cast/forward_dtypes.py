"""What a module's own forward does with its float buffers, which a cast leaves as they are.

A layer with float buffers stays whole. But a module may also reach into a layer inside it
(`self.proj.weight * self.scale`) and multiply the outcome with its input, which torch refuses for
two dtypes; or hand what a buffer widened to a layer. No shape of an input is known here, so the
forward is run with stand-ins that have nothing but a dtype. (torch.fx would do, but it patches
torch for all threads while it traces.)
"""

import dis
import inspect
import logging
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any

import torch

from .dtypes import FLOATS

log = logging.getLogger("headroom")

# What torch computes in one dtype only, and raises for two; it promotes for all else.
_ONE_DTYPE = frozenset((
    "linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "matmul", "mm", "bmm", "mv", "dot", "addmm", "addmv", "addbmm", "baddbmm",
    "einsum", "tensordot", "chain_matmul", "multi_dot", "scaled_dot_product_attention",
    "layer_norm", "group_norm", "batch_norm", "instance_norm", "embedding_bag",
))
# What these return has the dtype that they were told, or none that can be known here.
_TOLD = frozenset((
    "to", "type", "type_as", "float", "half", "bfloat16", "double", "zeros", "ones", "full",
    "empty", "arange", "tensor", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor",
    "size", "dim", "stride", "numel", "eq", "ne", "lt", "le", "gt", "ge",
))
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SAME_DTYPE = frozenset(("T", "mT", "H", "mH", "data"))
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")


class _Unknown(Exception):
    """The forward wants to know more than a dtype."""


@dataclass
class Meetings:
    """`product`: torch would refuse what the forward multiplies. `layer`: a layer inside gets what
    a buffer widened."""

    product: bool = False
    layer: bool = False


def meetings(module: torch.nn.Module) -> Meetings:
    """Return where the forward of `module` would bring float buffers and cast weights together.

    Nowhere, too, if that forward cannot be followed without its input. Runs the Python of that
    one forward with stand-ins for `self` and for tensors: no memory, no time worth naming. Only a
    module with float tensors of its own beside its layers, or in parts without weights, is looked
    at, and one that has no weights at all: to such a one, what comes is cast.
    """
    met = Meetings()
    is_leaf = next(module.children(), None) is None
    if is_leaf and not _has_no_weights(module) or not any(map(widens, tensors_beside(module))):
        return met
    try:
        _run(module, met)
    except Exception as error:  # noqa: BLE001 - the code of any model, which may raise anything
        log.debug("[Headroom] the forward of %s cannot be followed: %s", type(module), error)
    return met


def _has_no_weights(module: torch.nn.Module) -> bool:
    return next(module.parameters(), None) is None


def tensors_beside(module: torch.nn.Module) -> Iterator[torch.Tensor | None]:
    """Yield what `module` holds that no cast changes: buffers, and tensors that are plain
    attributes, also those of the parts in it that have no weights."""
    yield from module._buffers.values()
    yield from (value for value in vars(module).values() if isinstance(value, torch.Tensor))
    for part in module.children():
        if _has_no_weights(part):
            yield from tensors_beside(part)


def _run(module: torch.nn.Module, met: Meetings) -> None:
    if "forward" in vars(module):
        raise _Unknown("its forward was replaced")
    forward = type(module).forward
    needed = [each for each in list(inspect.signature(forward).parameters.values())[1:]
              if each.default is each.empty and each.kind not in _ANY_NUMBER]
    given = {each.name: _Value(met, False) for each in needed}
    forward(_Part(module, met), **given)


class _Value:
    """Stands for a tensor, or for what is read from one.

    `wide`: True has the dtype of a float buffer, False that of cast weights, None none that counts.
    """

    def __init__(self, met: Meetings, wide: bool | None, owner: Any = None, name: str = "") -> None:
        self._met, self._wide, self._owner, self._name = met, wide, owner, name

    @classmethod
    def __torch_function__(cls, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _apply(func.__name__, [args, kwargs or {}])

    def __getattr__(self, name: str) -> "_Value":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Value(self._met, self._wide if name in _SAME_DTYPE else None, self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> "_Value":
        return _apply(self._name, [self._owner, args, kwargs])

    def __getitem__(self, _key: Any) -> "_Value":
        return _Value(self._met, self._wide)

    def __iter__(self) -> Iterator["_Value"]:
        return iter([self[0]] * _unpacked(sys._getframe(1)))

    def __bool__(self) -> bool:
        raise _Unknown("it decides by a value or a shape")

    __len__ = __index__ = __int__ = __float__ = __bool__


def _operator(name: str, in_place: bool = False) -> Any:
    return lambda self, other: _apply(name + "_" * in_place, [self, other])


for _each in _OPERATORS:
    setattr(_Value, f"__{_each}__", _operator(_each))
    setattr(_Value, f"__r{_each}__", _operator(_each))
    setattr(_Value, f"__i{_each}__", _operator(_each, in_place=_each != "matmul"))
for _each in ("neg", "abs", "invert"):
    setattr(_Value, f"__{_each}__", lambda self: self[0])


class _Part:
    """Stands for a module: weights, buffers and layers are stand-ins, what is set stays here."""

    def __init__(self, module: torch.nn.Module, met: Meetings) -> None:
        vars(self).update(_module=module, _met=met)

    def __getattr__(self, name: str) -> Any:
        found = inspect.getattr_static(type(self._module), name, None)
        if isinstance(found, property) and found.fget is not None:
            return found.fget(self)
        return self._stand_in(getattr(self._module, name), name)

    def _stand_in(self, found: Any, name: str = "") -> Any:
        if isinstance(found, torch.nn.Module):
            return _Part(found, self._met)
        if isinstance(found, torch.Tensor):
            cast = name in self._module._parameters and widens(found)
            return _Value(self._met, False if cast else widens(found) or None)
        if isinstance(found, MethodType) and found.__self__ is self._module:
            return partial(found.__func__, self)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _has_no_weights(self._module) and any(map(widens, tensors_beside(self._module))):
            return self._without_weights(args, kwargs)
        self._met.layer |= any(value._wide for value in _values([args, kwargs]))
        return _Value(self._met, False)

    def _without_weights(self, args: Any, kwargs: Any) -> Any:
        """Return what a part that has nothing but buffers makes of its inputs."""
        before, self._met.product = self._met.product, False
        out = type(self._module).forward(self, *args, **kwargs)
        is_armed, self._met.product = self._met.product, before
        return _Value(self._met, False) if is_armed else out

    def __getitem__(self, key: Any) -> Any:
        return self._stand_in(self._module[key])

    def __iter__(self) -> Iterator[Any]:
        return map(self._stand_in, iter(self._module))

    def __len__(self) -> int:
        return len(self._module)


def _apply(name: str, inputs: Any) -> _Value:
    values = list(_values(inputs))
    met = values[0]._met
    dtypes = {value._wide for value in values} - {None}
    met.product |= name in _ONE_DTYPE and len(dtypes) > 1
    if name in _TOLD or not dtypes:
        return _Value(met, None)
    in_place = name.endswith("_")  # what is written to keeps its dtype
    return _Value(met, values[0]._wide if in_place else True in dtypes)


def _values(inputs: Any) -> Iterator[_Value]:
    if isinstance(inputs, _Value):
        yield inputs
    elif isinstance(inputs, (list, tuple, dict)):
        items: Iterable[Any] = inputs.values() if isinstance(inputs, Mapping) else inputs
        for item in items:
            yield from _values(item)


def _unpacked(frame: Any) -> int:
    """Return how many names the running line of `frame` unpacks into, as in `b, c = x.shape`."""
    for each in dis.get_instructions(frame.f_code):
        if each.offset == frame.f_lasti and each.opname == "UNPACK_SEQUENCE":
            return operator.index(each.argval)
    raise _Unknown("it goes through a tensor")


def widens(buffer: torch.Tensor | None) -> bool:
    # A single number takes the dtype of what it meets.
    return buffer is not None and buffer.dtype in FLOATS and buffer.dim() > 0

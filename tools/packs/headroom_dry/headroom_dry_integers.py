"""Small integers on the fake device with their real values: counts and places that a program reads.

The driver computes nothing, so that a length which was computed on the device and then read back
would be 0. Here an operation on integers whose values are known is done on the CPU, and its result
put into the device's memory, which is memory of this process. Known are values that were copied to
the device or created there, and what is computed from them; never what a model computes.
"""

import ctypes
import math
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

MOST_BYTES = 64 << 10  # what the dry server copies to the device; nobody reads larger ones back
KNOWN = "_headroom_dry_known"
COPY, FROM_DATA = torch.ops.aten.copy_.default, torch.ops.aten.lift_fresh.default
MASKED = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default,
          torch.ops.aten.index_put_.default, torch.ops.aten._index_put_impl_.default)
CASTS = (torch.ops.aten._to_copy.default,)  # of a mask that was made a float, and is one again
OF_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
UNMADE = ("aten::empty", "aten::rand", "aten::randint", "aten::randn", "aten::randperm")
FILLED = ("aten::zeros", "aten::ones", "aten::full")  # the first argument is the size
PLAIN, COMPOSED, LOOKS = "plain", "composed", "looks"
Tensor = torch.Tensor


class Integers(TorchDispatchMode):
    """Does so in the thread in which it is entered.

    `large`: makes what a function returns of other tensors, which it is also given by themselves;
    None where it is to run. `reads`: how often numbers or masks, which can decide, were read.
    """

    def __init__(self, large: Callable[..., Tensor | None] | None = None) -> None:
        super().__init__()
        self.large = large
        self.reads = 0


def tell_of_data() -> None:
    """Let `torch.as_tensor` make what it makes of numbers as `torch.tensor`, which tells a mode."""
    plain = torch.as_tensor

    @wraps(plain)
    def told(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
        made = torch.tensor if _is_list(data) or isinstance(data, (int, float)) else plain
        return made(data, dtype=dtype, device=device)

    torch.as_tensor = told


def _dispatch(
    mode: Integers, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
) -> Any:
    first = args[0] if args else None
    if isinstance(first, (list, tuple)) and first:
        first = first[0]
    if (isinstance(first, Tensor) and first.is_cuda and KNOWN not in first.__dict__
            and (first.is_floating_point() or first.nbytes > MOST_BYTES)):
        kind = _kind(func)  # most calls end here, and each takes three times as long elsewhere
        if kind == PLAIN or kind == COMPOSED and not any(
                isinstance(one, Tensor) and KNOWN in one.__dict__ for one in args):
            return func(*args, **(kwargs or {}))
    kwargs = kwargs or {}
    given = list(_tensors((*args, *kwargs.values())))
    mode.reads += any(one.is_cuda for one in given) and _is_read(func, args, kwargs)
    if types or not all(_is_small(one) or func in CASTS and KNOWN in one.__dict__
                        for one in given):
        if types:
            return _unknown(func, args, kwargs)
        made = mode.large(func, args, kwargs, given) if mode.large else None
        if made is None and _kind(func) == COMPOSED and any(
                KNOWN in one.__dict__ or one.is_cpu and one.nbytes > MOST_BYTES for one in given):
            with mode:  # `inference_mode` hands it over whole, with known integers or frames in it
                return func.decompose(*args, **kwargs)
        return _unknown(func, args, kwargs) if made is None else made
    device = torch.device(kwargs.get("device") or "cpu").type
    if device == "cpu" and not any(one.is_cuda for one in given):
        made = mode.large(func, args, kwargs, given) if not given and mode.large else None
        return func(*args, **kwargs) if made is None else made
    if func is FROM_DATA:
        return _mark(func(*args, **kwargs))
    if func is COPY and _is_known(args[1]):
        cpu_view(args[0]).copy_(cpu_view(args[1]))
        return _mark(args[0])
    is_unread = func._schema.name in FILLED and (
        math.prod(args[0]) > MOST_BYTES  # or the scale of quantised values
        or not args[0] and getattr(kwargs.get("dtype"), "is_floating_point", False))
    if is_unread or func._schema.name in UNMADE or not all(map(_is_known, given)):
        return _unknown(func, args, kwargs)
    if any(one.alias_info and not one.alias_info.is_write for one in func._schema.returns):
        made = func(*args, **kwargs)
        if all(_shares(one, given) for one in _tensors(made if _is_list(made) else (made,))):
            return tree_map(_mark, made)  # a view
    return _computed(func, args, kwargs)


# Given later: of a class that is made with it, PyTorch would let Dynamo look at each call.
Integers.__torch_dispatch__ = _dispatch  # type: ignore[method-assign, assignment]


def _unknown(func: Any, args: Any, kwargs: Any) -> Any:
    for place, name in _written(func):
        changed = args[place] if place < len(args) else kwargs.get(name)
        for one in _tensors(changed if _is_list(changed) else (changed,)):
            one.__dict__.pop(KNOWN, None)
    if func in MASKED and not (len(args) > 2 and args[2].numel() == 1):  # else it fills by the mask
        args = (args[0], _places(args[1]), *args[2:])
    return func(*args, **kwargs)


@cache
def _kind(func: Any) -> str:
    """Return the kind of a function, once, when its numbers are not known.

    COMPOSED: PyTorch makes it of others. PLAIN: it neither changes nor reads known integers.
    """
    if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return COMPOSED
    looks = func in MASKED or any(place for place, _ in _written(func))
    return LOOKS if looks else PLAIN


def _is_read(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether what follows can depend on values: as numbers, as a size, on the CPU."""
    if func in MASKED:
        return any(one.dtype is torch.bool for one in _tensors(args[1]))
    if func is COPY:
        return not args[0].is_cuda
    is_fetched = func in CASTS and kwargs.get("device") == torch.device("cpu")
    return is_fetched or any(tag in func.tags for tag in OF_VALUES)


@cache
def _written(func: Any) -> list[tuple[int, str]]:
    """The arguments that a function writes to, by their places and names."""
    return [(place, one.name) for place, one in enumerate(func._schema.arguments)
            if one.alias_info is not None and one.alias_info.is_write]


def _places(indices: Any) -> list[Any]:
    """Replace a mask by its places: the device computes nothing and would find none.

    An unknown mask, of computed floats, is taken for one that leaves nothing out.
    """
    found: list[Any] = []
    for one in indices:
        if not (isinstance(one, Tensor) and one.is_cuda and one.dtype is torch.bool):
            found.append(one)
        elif _is_known(one):
            found += [_put(each, one.device) for each in cpu_view(one).nonzero(as_tuple=True)]
        else:
            found += [torch.empty(one.numel(), dtype=torch.long, device=one.device)
                      for _ in one.size()]
    return found


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute it on the CPU, and put the result where the device would have it."""
    mapped: dict[int, Tensor] = {}

    def on_cpu(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_cuda:
            copy = cpu_view(value).clone()
            mapped[id(copy)] = value
            return copy
        return value

    device = kwargs.get("device") or next(
        (one.device for one in _tensors((*args, *kwargs.values())) if one.is_cuda), None)
    values = tree_map(on_cpu, (args, {**kwargs, "device": "cpu"} if "device" in kwargs else kwargs))
    made = func(*values[0], **values[1])
    if func._schema.is_mutable:
        for copy in _tensors((*values[0], *values[1].values())):
            if id(copy) in mapped:
                cpu_view(mapped[id(copy)]).copy_(copy)
    return tree_map(lambda one: mapped.get(id(one)) if id(one) in mapped
                    else _put(one, device) if isinstance(one, Tensor) else one, made)


def _put(made: Tensor, device: Any) -> Tensor:
    if torch.device(device).type == "cpu":
        return made
    there = torch.empty_strided(made.size(), made.stride(), dtype=made.dtype, device=device)
    if made.nbytes > MOST_BYTES:
        return there
    if made.numel():  # its whole range: several elements can share one place in memory
        line = (_reach(made),), (1,)
        cpu_view(there).as_strided(*line).copy_(made.as_strided(*line))
    return _mark(there)


def cpu_view(tensor: Tensor) -> Tensor:
    """The memory of a tensor as one on the CPU: on the fake device it is the same memory."""
    if not tensor.is_cuda or tensor.numel() == 0:
        return tensor if not tensor.is_cuda else torch.empty(tensor.size(), dtype=tensor.dtype)
    memory = (ctypes.c_char * (_reach(tensor) * tensor.element_size())).from_address(
        tensor.data_ptr())
    return torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.size(), tensor.stride())


def _reach(tensor: Tensor) -> int:
    """From its first element to behind its last, in elements."""
    return 1 + sum((size - 1) * step
                   for size, step in zip(tensor.size(), tensor.stride(), strict=True))


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif _is_list(value):
            yield from _tensors(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _shares(made: Tensor, given: list[Tensor]) -> bool:
    """Whether it is in the memory of one of these: `to` and `reshape` can also make a copy."""
    memory = made.untyped_storage().data_ptr()
    return any(one.untyped_storage().data_ptr() == memory for one in given)


def _is_small(tensor: Tensor) -> bool:
    return (not tensor.is_floating_point() and not tensor.is_complex()
            and not tensor.is_sparse and tensor.nbytes <= MOST_BYTES)


def _is_known(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" or KNOWN in tensor.__dict__


def mark_small(tensor: Tensor) -> None:
    """Note that an integer that was copied to the device outside of the mode has its real value."""
    _mark(tensor if _is_small(tensor) else None)


def _mark(value: Any) -> Any:
    if isinstance(value, Tensor) and value.is_cuda:
        value.__dict__[KNOWN] = True
    return value

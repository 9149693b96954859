"""How an operation on device tensors is run: unwrap, compute on the CPU, wrap and charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from .device import current
from .tensor import DEVICE, Behaviour, SimTensor, resync, wrap

Handler = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]
Kernel = Callable[..., Any]

# Operations with a rule of their own; ops.py fills it. Every other operation that PyTorch
# composes of smaller ones is decomposed, so that intermediate results are charged as on CUDA.
SPECIAL: dict[Any, Handler] = {}
# Operations whose CPU kernel is replaced by a faster one with the same result and memory.
KERNELS: dict[Any, Kernel] = {}
# Operations that accept CPU tensors of any shape beside device tensors.
INDEXING: set[Any] = set()
# Operations that a tensor with `requires_grad` may meet although its gradient is not simulated.
WITHOUT_GRADIENT: set[Any] = set()

_HOST = torch.device("cpu")
_handlers: dict[Any, Handler] = {}
_kernels: dict[Any, Kernel] = {}
_adapters: list[Callable[[Any, Kernel], Kernel]] = []


def operate(
    func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Carry out one operation, as `__torch_dispatch__`."""
    if len(types) > 1 and not all(issubclass(kind, SimTensor) for kind in types):
        return NotImplemented  # another wrapper around a device tensor knows what to do
    if torch.is_grad_enabled() and _gradient_wanted([*args, *kwargs.values()]):
        return _without_gradient(func, args, kwargs)
    return (_handlers.get(func) or _choose(func))(func, args, kwargs)


def run(
    kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], host_too: bool = False
) -> Any:
    """Run a CPU kernel on the tensors inside and put its results on the device."""
    bases: list[Any] = []
    plain = [unwrap(value, bases, host_too) for value in args]
    if not kwargs:
        return rewrap(kernel(*plain), bases)
    named = {name: unwrap(value, bases, host_too) for name, value in kwargs.items()}
    return rewrap(kernel(*plain, **named), bases)


def unwrap(value: Any, bases: list[Any], host_too: bool = False) -> Any:
    """The CPU side of an argument; device tensors met on the way are added to `bases`."""
    kind = type(value)
    if kind is SimTensor:
        bases.append(value)
        return value._cpu
    if kind is list or kind is tuple:
        return [unwrap(item, bases, host_too) for item in value]
    if isinstance(value, torch.Tensor) and value.dim() and not host_too:
        raise mixture()
    return value


def rewrap(result: Any, bases: Sequence[Any]) -> Any:
    """Results as device tensors: the same object, a view that shares its charge, or a new one."""
    if isinstance(result, torch.Tensor):
        storage = result.untyped_storage()
        for base in bases:
            if result is base._cpu:
                return base
            if base._cpu.untyped_storage()._cdata == storage._cdata:
                return wrap(result, base._charge)
        return wrap(result, current().charge(storage.nbytes()))
    if isinstance(result, list | tuple):
        return type(result)([rewrap(item, bases) for item in result])
    return result


def kernel_of(func: Any) -> Kernel:
    """What computes `func` on CPU tensors."""
    found = _kernels.get(func)
    if found is None:
        found = KERNELS.get(func, func)
        for adapt in _adapters:
            found = adapt(func, found)
        _kernels[func] = found
    return found


@contextmanager
def adapted(adapt: Callable[[Any, Kernel], Kernel]) -> Iterator[None]:
    """Compute with `adapt(func, kernel)` in the place of every kernel within this context."""
    _adapters.append(adapt)
    _forget()
    try:
        yield
    finally:
        _adapters.remove(adapt)
        _forget()


def _forget() -> None:
    _handlers.clear()
    _kernels.clear()


def mixture() -> RuntimeError:
    """The error of an operation on tensors of the CPU and of the device."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{DEVICE} and cpu!"
    )


def _gradient_wanted(values: Sequence[Any]) -> bool:
    """Whether a device tensor, alone or in a list, requires a gradient."""
    for value in values:
        for item in value if isinstance(value, list | tuple) else (value,):
            if type(item) is SimTensor and item.requires_grad:
                return True
    return False


def _without_gradient(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run operations that need no gradient and refuse others; views keep `requires_grad`."""
    if not func.is_view and func not in WITHOUT_GRADIENT:
        raise RuntimeError(
            f"The simulated GPU has no gradients, and {func} got a tensor that requires one: "
            "run this under torch.inference_mode() or torch.no_grad()."
        )
    with torch.no_grad():
        result = operate(func, (), args, kwargs)
    if func.is_view and func is not torch.ops.aten.detach.default:
        for view in result if isinstance(result, list | tuple) else (result,):
            view.requires_grad_(True)
    return result


def decompose(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run `func` as the smaller operations that PyTorch composes it of."""
    return func.decompose(*args, **kwargs)


def _choose(func: Any) -> Handler:
    _handlers[func] = found = SPECIAL.get(func) or _general(func)
    return found


def _general(func: Any) -> Handler:
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), "CompositeImplicitAutograd"
    )
    if composite and func not in KERNELS:
        return decompose
    kernel, host_too = kernel_of(func), func in INDEXING
    if func._schema.is_mutable:
        return lambda func, args, kwargs: _run_in_place(kernel, args, kwargs, host_too)
    if any(argument.name == "device" for argument in func._schema.arguments):
        return lambda func, args, kwargs: _run_factory(kernel, args, kwargs)
    return lambda func, args, kwargs: run(kernel, args, kwargs, host_too)


def _run_in_place(
    kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], host_too: bool
) -> Any:
    result = run(kernel, args, kwargs, host_too)
    for value in [*args, *kwargs.values()]:
        for tensor in value if isinstance(value, list | tuple) else (value,):
            if type(tensor) is SimTensor and _moved(tensor):
                resync(tensor)
    return result


def _run_factory(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    target = kwargs.get("device")
    if target is None or target.type == DEVICE.type:
        return run(kernel, args, {**kwargs, "device": _HOST})
    bases: list[Any] = []
    plain = [unwrap(value, bases) for value in args]
    return kernel(*plain, **kwargs)


def _moved(tensor: Any) -> bool:
    inside = tensor._cpu
    return bool(tensor.shape != inside.shape or tensor.stride() != inside.stride())


Behaviour.operate = operate

"""The tensor of the simulated GPU: a wrapper that owns a CPU tensor and shares a charge.

PyTorch sees a tensor on `cuda:0` without data; every operation on it arrives in
`__torch_dispatch__`, runs on the CPU tensors inside, and its new storages are charged.
Gradients are not simulated: PyTorch's autograd asks the driver for a stream, in C++ that cannot
fail gracefully, so it never learns that a tensor wants one; dispatch.py refuses such operations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from .device import Charge, current

DEVICE = torch.device("cuda", 0)
_make = torch.Tensor._make_wrapper_subclass


class Behaviour:
    """What dispatch.py and indexing.py supply; this module knows neither."""

    operate: Callable[..., Any]
    get_items: Callable[..., Any]
    set_items: Callable[..., Any]


class _PassesForTensor(type(torch.Tensor)):  # type: ignore[misc]
    """The class of SimTensor: equal to torch.Tensor, because on a real GPU tensors have no
    subclass. Code that asks `type(tensor) in (torch.Tensor, torch.nn.Parameter)` gets the answer of
    a real GPU.
    """

    def __eq__(cls, other: object) -> bool:
        return other is torch.Tensor or other is cls

    def __hash__(cls) -> int:
        return hash(torch.Tensor)


class SimTensor(torch.Tensor, metaclass=_PassesForTensor):
    """A tensor on the simulated `cuda:0`. Views have the same `_charge` as their base."""

    __slots__ = ("_charge", "_cpu")
    _cpu: torch.Tensor
    _charge: Charge
    _wants_gradient = False

    __torch_function__ = torch._C._disabled_torch_function_impl

    # A traceback keeps the tensors of its frames alive. On a real GPU there are no frames inside
    # the operation, so errors leave here without them, and these two references are dropped first.
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[override]
        try:
            return Behaviour.operate(func, types, args, kwargs or {})
        except Exception as caught:  # noqa: BLE001 - raised again below, whatever it is
            error = caught.with_traceback(None)
        del args, kwargs
        try:
            raise error
        finally:
            del error

    def __getitem__(self, index: Any) -> SimTensor:
        try:
            return Behaviour.get_items(self, index)
        except Exception as caught:  # noqa: BLE001 - raised again below, whatever it is
            error = caught.with_traceback(None)
        del self, index
        try:
            raise error
        finally:
            del error

    def __setitem__(self, index: Any, value: Any) -> None:
        Behaviour.set_items(self, index, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> SimTensor:
        if id(self) in memo:
            return memo[id(self)]
        with torch.no_grad():
            copied = self.clone()
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (to_device, (self._cpu.detach().clone(),))

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        """What was asked for, so that a module keeps it when it moves; autograd sees False."""
        return self._wants_gradient

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self._wants_gradient = bool(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> SimTensor:
        """Set `requires_grad`."""
        self._wants_gradient = bool(requires_grad)
        return self

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{self._cpu!r}"[:-1] + f", device='{DEVICE}')"

    def __format__(self, spec: str) -> str:
        return self.item().__format__(spec) if self.dim() == 0 else object.__format__(self, spec)

    # The C++ side of the next few asks the driver for the current device.
    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    def __invert__(self) -> SimTensor:
        return self.bitwise_not()

    def copy_(self, source: torch.Tensor, non_blocking: bool = False) -> SimTensor:
        """Copy values in, also from the CPU."""
        with torch.no_grad():
            return torch.ops.aten.copy_.default(self, source, non_blocking)

    def contiguous(self, memory_format: torch.memory_format = torch.contiguous_format) -> SimTensor:
        """Return the tensor itself if it is contiguous, else a copy."""
        if self.is_contiguous(memory_format=memory_format):
            return self
        return self.clone(memory_format=memory_format)

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """Indices of the elements that are not zero."""
        found = torch.ops.aten.nonzero.default(self)
        return found.unbind(1) if as_tuple else found

    def data_ptr(self) -> int:
        """Address of the first element; unique among live storages, as on a real device."""
        return self._cpu.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        """The storage with its true size and address (it says it is on the CPU)."""
        return self._cpu.untyped_storage()

    def tolist(self) -> Any:
        """The values as Python numbers."""
        return self._cpu.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """The values as an array; like a real device only with `force`."""
        if force:
            return self._cpu.detach().clone().numpy()
        raise TypeError(
            f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first."
        )

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, **options: Any):
        """A tensor from `data`, on this device unless told otherwise."""
        chosen = DEVICE if device is None else device
        return torch.tensor(data, dtype=dtype or self.dtype, device=chosen, **options)

    def pin_memory(self, device: Any = None) -> SimTensor:
        """Refuse: only RAM can be pinned."""
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")

    def record_stream(self, stream: Any) -> None:
        """Nothing to do: all work is done when an operation returns."""


def wrap(cpu: torch.Tensor, charge: Charge) -> SimTensor:
    """Return the device tensor over `cpu`; `charge` counts its bytes."""
    made = _make(
        SimTensor,
        cpu.size(),
        strides=cpu.stride(),
        storage_offset=cpu.storage_offset(),
        dtype=cpu.dtype,
        layout=cpu.layout,
        device=DEVICE,
    )
    made._cpu, made._charge = cpu, charge
    return made


def charged(cpu: torch.Tensor) -> SimTensor:
    """The device tensor over the new storage of `cpu`. Raises when the device is full."""
    return wrap(cpu, current().charge(cpu.untyped_storage().nbytes()))


def to_device(cpu: torch.Tensor) -> SimTensor:
    """A copy of a CPU tensor on the device."""
    made = charged(torch.empty_like(cpu))
    made._cpu.copy_(cpu)
    return made


def resync(tensor: SimTensor) -> None:
    """Let a wrapper follow its CPU tensor after an operation changed the shape or the storage."""
    cpu = tensor._cpu
    charge = tensor._charge
    nbytes = cpu.untyped_storage().nbytes()
    if nbytes != charge.nbytes:
        charge = current().charge(nbytes)
    tensor._charge = charge
    torch._C.TensorBase.data.__set__(tensor, wrap(cpu, charge))

"""Counting the bytes of tensors, each storage once (tied weights and views share theirs)."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .device import same_device


def module_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the named parameters, then the named buffers, of `module`."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def parts_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the tensors with the memory of `tensor`: those inside a quantised one, else itself.

    Its own `__tensor_flatten__` would list them too, but sets attributes of ComfyUI's weights.
    """
    if not hasattr(type(tensor), "__tensor_flatten__"):
        yield tensor
        return
    for value in list(vars(tensor).values()):
        is_group = dataclasses.is_dataclass(value) and not isinstance(value, type)
        fields = dataclasses.fields(value) if is_group else ()
        for part in tensors_within([getattr(value, one.name) for one in fields] or value):
            yield from parts_of(part)


def storage_bytes(tensors: Iterable[torch.Tensor]) -> dict[str, int]:
    """Return the bytes of the distinct storages behind `tensors`, per device name.

    A storage counts in full, however small the view on it: it lives as long as the view.
    Tensors without real storage (meta, unmaterialised) count as 0.
    """
    total: dict[str, int] = {}
    for (device, _), nbytes in dict(storages(tensors)).items():
        total[device] = total.get(device, 0) + nbytes
    return total


def storages(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield (device name, address) and bytes of the storages behind `tensors`, if they have memory.

    One that several tensors share comes several times.
    """
    for tensor in (part for whole in tensors for part in parts_of(whole)):
        if (key := storage_key(tensor)) is not None:
            yield key, tensor.untyped_storage().nbytes()


def storage_key(tensor: torch.Tensor) -> tuple[str, int] | None:
    """Return (device name, address) of the storage behind `tensor`; None if it has no memory."""
    try:
        device = tensor.device
        address = 0 if device.type == "meta" else tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        # Wrapper subclasses (quantised tensors) may refuse access to their storage. A tensor that
        # Python's garbage collector is just clearing in another thread has no device any more.
        return None
    return (str(device), address) if address else None


def module_bytes(modules: Iterable[torch.nn.Module]) -> dict[str, int]:
    """Return the bytes that `modules` hold per device name, shared storages counted once."""
    return storage_bytes(tensor for module in modules for _, tensor in module_tensors(module))


def bytes_on(module: Any, device: torch.device) -> int:
    """Return the bytes that a module holds on `device`; 0 for any other object."""
    if not isinstance(module, torch.nn.Module):
        return 0
    return sum(size for name, size in module_bytes([module]).items()
               if same_device(torch.device(name), device))


def tensors_within(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_within(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_within(item)

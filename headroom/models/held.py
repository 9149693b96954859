"""Which models are on the GPU right now: asked between any two nodes, so it has to be cheap."""

import weakref
from typing import Any

import torch

from ..base.device import same_device
from ..base.tensors import module_tensors
from ..host.adapter import current_host
from ..host.types import Held, ModelFacts
from .loaded import class_name, file_name, kind_of, name_of
from .unload import loaded_bytes


class HeldModels:
    """Called, gives what ComfyUI holds on its devices: a few microseconds a model.

    What does not change about a model is looked up when it is first seen, a millisecond or two.
    Equal answers one after the other are one object: records of many nodes share it.
    """

    def __init__(self) -> None:
        self._facts: weakref.WeakKeyDictionary[Any, ModelFacts] = weakref.WeakKeyDictionary()
        self._last: tuple[Held, ...] = ()

    def __call__(self) -> tuple[Held, ...]:
        host = current_host()
        found = tuple(self._held(entry, host) for entry in host.loaded_entries()
                      if entry.model is not None) if host is not None else ()
        found = tuple(held for held in found if held.bytes > 0)
        if found != self._last:
            self._last = found
        return self._last

    def _held(self, entry: Any, host: Any) -> Held:
        patcher = entry.model
        facts = self._facts.get(patcher.model)
        if facts is None:
            facts = self._facts[patcher.model] = _facts_of(patcher, host)
        return Held(facts, str(entry.device), loaded_bytes(entry))


def _facts_of(patcher: Any, host: Any) -> ModelFacts:
    model = patcher.model
    return ModelFacts(
        id=name_of(model),
        kind=kind_of(model),
        class_name=class_name(model),
        file=file_name(host.source_files(patcher)),
        total_bytes=int(patcher.model_size()),
        float32_bytes=float32_bytes(model),
        is_dynamic=host.is_dynamic(patcher),
        stays=same_device(patcher.offload_device, patcher.load_device),
    )


def float32_bytes(model: torch.nn.Module) -> int:
    """Return the bytes of the weights that are float32 where they are used.

    Dynamic VRAM leaves a file's dtype in RAM and says on the module which one goes to the GPU.
    """
    total = 0
    for name, tensor in module_tensors(model):
        if _used_dtype(model, name, tensor) == torch.float32:
            total += 4 * tensor.numel()
    return total


def _used_dtype(model: torch.nn.Module, name: str, tensor: torch.Tensor) -> torch.dtype:
    owner, _, leaf = name.rpartition(".")
    module = model.get_submodule(owner) if owner else model
    return getattr(module, f"{leaf}_comfy_model_dtype", None) or tensor.dtype

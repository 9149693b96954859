"""Which models are on the GPU now. It is called between any two nodes, so it must be cheap."""

import weakref
from typing import Any

import torch

from ..base.device import same_device
from ..base.tensors import module_tensors, parts_of
from ..host.adapter import current_host
from ..host.types import Held, ModelFacts
from .loaded import class_name, file_name, kind_of, name_of
from .unload import loaded_bytes


class HeldModels:
    """Returns, when called, what ComfyUI holds on its devices: a few microseconds for each model.

    Facts about a model that never change are read once, which takes a millisecond or two. Equal
    answers in a row are one object, so the records of many nodes share it.
    """

    def __init__(self) -> None:
        self._facts: weakref.WeakKeyDictionary[Any, ModelFacts] = weakref.WeakKeyDictionary()
        self._seen: list[tuple[weakref.ref[Any], torch.device, int]] = []
        self._last: tuple[Held, ...] = ()

    def __call__(self) -> tuple[Held, ...]:
        host = current_host()
        entries = host.loaded_entries() if host is not None else []
        found = [(patcher, entry.device, loaded_bytes(entry)) for entry in entries
                 if (patcher := entry.model) is not None]
        if not self._is_seen(found):
            self._seen = [(weakref.ref(one.model), place, size) for one, place, size in found]
            self._last = tuple(self._held(*one, host) for one in found if one[2] > 0)
        return self._last

    def _is_seen(self, found: list[tuple[Any, torch.device, int]]) -> bool:
        """Whether nothing has changed since the last call, as after most nodes."""
        return len(found) == len(self._seen) and all(
            size == was and ref() is patcher.model and place == there
            for (patcher, place, size), (ref, there, was) in zip(found, self._seen, strict=True)
        )

    def _held(self, patcher: Any, device: torch.device, size: int, host: Any) -> Held:
        facts = self._facts.get(patcher.model)
        if facts is None:
            facts = self._facts[patcher.model] = _facts_of(patcher, host)
        return Held(facts, str(device), size)


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
    """Return the bytes of the weights that are float32 on the device that uses them.

    Dynamic VRAM leaves a file's dtype in RAM; the module says which dtype goes to the GPU.
    """
    total = 0
    for name, tensor in module_tensors(model):
        is_plain = next(parts_of(tensor), None) is tensor  # a quantised one tells another
        if is_plain and _used_dtype(model, name, tensor) == torch.float32:
            total += 4 * tensor.numel()
    return total


def _used_dtype(model: torch.nn.Module, name: str, tensor: torch.Tensor) -> torch.dtype:
    owner, _, leaf = name.rpartition(".")
    module = model.get_submodule(owner) if owner else model
    return getattr(module, f"{leaf}_comfy_model_dtype", None) or tensor.dtype

"""The models that ComfyUI has loaded, each with a name that a later request can use."""

import itertools
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ..base.device import same_device
from ..base.inputs import shown
from ..base.said import Said, said
from ..base.tensors import module_tensors, parts_of
from ..host.adapter import current_host
from ..host.borrowed import borrowed
from ..host.types import Held, ModelFacts
from .unload import loaded_bytes

DIFFUSION_MODEL = said("diffusion model")
_KINDS = (
    (said("ControlNet"), ("controlnet", "control_net", "cldm", "t2i_adapter")),
    (said("CLIP vision"),
     ("clip_vision", "clipvision", "image_encoders", "clip_model")),
    (said("text encoder"), ("text_encoder", "sd1_clip", "sdxl_clip", "t5")),
    (said("VAE"), ("autoencoder", "vae", "taesd")),
    (said("upscale model"), ("spandrel", "upscale")),
)


_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_facts: weakref.WeakKeyDictionary[Any, ModelFacts] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)  # no name is used twice
_lock = threading.Lock()


def name_of(model: Any) -> str:
    """Return the name of a model (the nn.Module behind a patcher), the same for its whole life."""
    with _lock:
        if model not in _names:
            _names[model] = f"m{next(_numbers)}"
        return _names[model]


def loaded_models() -> list[Held]:
    """Return what ComfyUI has loaded, most recent first, each set of weights once.

    It costs some microseconds for each model; the first time a millisecond or two.
    """
    host = current_host()
    if host is None:
        return []
    with borrowed.looked_at([]) as patchers:
        return _held(host, patchers)


def _held(host: Any, patchers: list[Any]) -> list[Held]:
    """Describe each model, and put its patcher into `patchers`."""
    found: dict[str, Held] = {}
    for entry in host.loaded_entries():
        patcher = entry.model
        if patcher is not None:
            patchers.append(patcher)
            facts = _facts_of(patcher, host)
            found.setdefault(facts.id, Held(facts, str(entry.device), loaded_bytes(entry)))
    return list(found.values())


def _facts_of(patcher: Any, host: Any) -> ModelFacts:
    """Return what never changes about a model; it is read once."""
    model = patcher.model
    if model not in _facts:
        _facts[model] = ModelFacts(
            id=name_of(model),
            kind=kind_of(model),
            class_name=class_name(model),
            file=file_name(host.source_files(patcher)),
            total_bytes=int(patcher.model_size()),
            float32_bytes=float32_bytes(model),
            is_dynamic=host.is_dynamic(patcher),
            stays=same_device(patcher.offload_device, patcher.load_device),
        )
    return _facts[model]


def file_name(files: Iterable[Path]) -> str | None:
    """Return the names of a model's files without their folders, None when there are none."""
    return " + ".join(file.name for file in files) or None


def class_name(model: Any) -> str:
    """Return the class of a model; for ComfyUI's general BaseModel, the class of its config.

    Each family of diffusion models has a configuration class, such as SD15; only some have a model
    class.
    """
    name = type(model).__name__
    config = getattr(model, "model_config", None)
    return type(config).__name__ if name == "BaseModel" and config is not None else name


def patchers_named(ids: list[str]) -> list[Any]:
    """Return the patchers of these models; ValueError names one that is not loaded (any more)."""
    host = current_host()
    entries = [] if host is None else host.loaded_entries()
    known = {name_of(patcher.model): patcher for entry in reversed(entries)
             if (patcher := entry.model) is not None}
    for wanted in ids:
        if wanted not in known:
            raise ValueError(said(
                "Expected the id of a loaded model as GET /headroom/memory lists them, but got "
                "{given}, which is not (or no longer) loaded.", given=shown(wanted)))
    return [known[wanted] for wanted in ids]


def kind_of(model: Any) -> Said:
    """Return what a user would call this model, by the names of its classes and their modules."""
    classes = [cls for cls in type(model).__mro__ if not cls.__module__.startswith("torch.")]
    if any(cls.__name__ == "BaseModel" for cls in classes):
        return DIFFUSION_MODEL
    named = " ".join(f"{cls.__module__}.{cls.__name__}" for cls in classes).lower()
    for kind, marks in _KINDS:
        if any(mark in named for mark in marks):
            return kind
    return said("model")


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

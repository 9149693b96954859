"""The host adapter for Cast bf16: a patcher of its own for a private copy of the weights.

Only objects made here are changed; the given patcher and everything it shares stay as they are.
"""

import inspect
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import comfy.model_management as mm
import torch

from ..base.copies import Copies, follow
from ..base.inputs import attribute
from ..base.said import said
from . import core as host

COMPILE_KEY = "torch.compile"

# ---------------------------------------------------------------- looking at the source


def unload(patcher: Any) -> None:
    """Unload what shares weights with `patcher`: loaded weights may carry a LoRA inside."""
    host.unload(host.entries_of([patcher]))


def weight_backups(patcher: Any) -> dict[str, torch.Tensor]:
    """Return the unpatched weights of a model that still has patches inside, by name."""
    return {name: entry.weight for name, entry in patcher.backup.items()}


def shared_parts(module: torch.nn.Module) -> list[Any]:
    """Return what a copy of `module` shares with it: its configuration, and patchers.

    The configuration answers None for every attribute it lacks, `__setstate__` included, which
    Python's deepcopy cannot take; it describes the architecture and never changes.
    """
    return [
        value
        for part in module.modules()
        for name, value in vars(part).items()
        if name in ("model_config", "latent_format") or callable(attribute(value, "is_clone"))
    ]


def quantised_reason(patcher: Any) -> str:
    """Return why ComfyUI takes the whole model for quantised, "" where it does not."""
    config = getattr(patcher.model, "model_config", None)
    for mark in ("quant_config", "scaled_fp8"):
        # Newer configurations warn in the log about every attribute they lack.
        if inspect.getattr_static(config, mark, None):
            return said("its {mark} says so", mark=mark)
    return ""


def compiled_reason(patcher: Any) -> str:
    """Return what on `patcher` holds on to the old weights in compiled form, "" for nothing."""
    for wrappers in patcher.wrappers.values():
        if COMPILE_KEY in wrappers:
            return "a torch.compile wrapper"
    weights = {id(parameter) for parameter in patcher.model.parameters()}
    parts = {id(part) for part in patcher.model.modules()}
    for name, patch in patcher.object_patches.items():
        if isinstance(patch, torch.nn.Module) and id(patch) not in parts:
            if any(id(parameter) in weights for parameter in patch.parameters()):
                return f"a replaced {name}"
    return ""


def device_dtype(part: torch.nn.Module, name: str, tensor: torch.Tensor) -> torch.dtype:
    """Return the dtype that a weight of a dynamic model has on the GPU; its file's may differ."""
    stamped = getattr(part, f"{name}_comfy_model_dtype", None)
    return stamped if isinstance(stamped, torch.dtype) else tensor.dtype


# ---------------------------------------------------------------- the copy


def reload(recipe: tuple[Any, ...], disable_dynamic: bool = False) -> Any:
    """Return a fresh patcher from the loader that made the model; `recipe` is the host's own."""
    options = {"disable_dynamic": True} if disable_dynamic else {}
    loaded = recipe[0](*recipe[1], **options)
    return loaded[recipe[2]] if len(recipe) > 2 else loaded


def loader_recipe(patcher: Any) -> tuple[Any, ...] | None:
    """Return the host's recipe to load this model again, None where it knows none."""
    return getattr(patcher, "cached_patcher_init", None)


def stamp(module: torch.nn.Module, targets: dict[str, torch.dtype]) -> None:
    """Tell ComfyUI the dtype of each weight on the GPU, where it keeps such stamps at all."""
    for prefix, part in module.named_modules():
        for name, _ in part.named_parameters(prefix, recurse=False):
            mark = f"{name.rpartition('.')[2]}_comfy_model_dtype"
            if hasattr(part, mark) and name in targets:
                setattr(part, mark, targets[name])


def start_unloaded(module: torch.nn.Module) -> None:
    """Clear what a copied module believes about being loaded, patched and sampled."""
    for name, value in (
        ("model_loaded_weight_memory", 0), ("lowvram_patch_counter", 0), ("model_lowvram", False),
        ("current_weight_patches_uuid", None), ("model_offload_buffer_memory", 0),
        ("current_patcher", None),
    ):
        if name in vars(module):
            setattr(module, name, value)
    for part in module.modules():
        vars(part).pop("comfy_patched_weights", None)


def use_compute_dtype(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Let a diffusion model compute in `dtype`, whatever ComfyUI chose for its old weights."""
    if "manual_cast_dtype" in vars(module):
        told = getattr(getattr(module, "diffusion_model", None), "dtype", None)
        vars(module)["manual_cast_dtype"] = None if told == dtype else dtype


def private_patcher(
    patcher: Any, module: torch.nn.Module, copies: Copies, recast: Callable[[Any], Any]
) -> Any:
    """Return a clone of `patcher`, patches and all, over `module` and tied to nothing else.

    A clone's parent and base id would let ComfyUI take the copy for the original: its list of
    loaded models falls back to the parent when a patcher dies. `recast` casts a reloaded patcher,
    for hosts that load a model again by its recipe.
    """
    if host.accepts(patcher.clone, "model_override"):
        copied = patcher.clone(model_override=(module, ({}, {}, {}, set())))
    else:
        copied = patcher.clone()
        copied.model = module
        copied.backup, copied.object_patches_backup, copied.pinned = {}, {}, set()
    copied.parent, copied.size = None, 0
    copied.hook_backup, copied.cached_hook_patches = {}, {}
    if hasattr(copied, "clone_base_uuid"):
        copied.clone_base_uuid = uuid.uuid4()
    recipe = loader_recipe(patcher)
    if recipe is not None:
        copied.cached_patcher_init = (reload_and_cast, (recipe, recast))
    copied.object_patches = follow(copied.object_patches, copies)
    copied.model_options = follow(copied.model_options, copies)
    copied.additional_models.pop("multigpu", None)
    return copied


def reload_and_cast(
    recipe: tuple[Any, ...], recast: Callable[[Any], Any], disable_dynamic: bool = False
) -> Any:
    """Load the original again and cast it again: what ComfyUI calls for a further copy."""
    return recast(reload(recipe, disable_dynamic))


def forget_carrier_state(copied: Any) -> None:
    """Clear what a copied VAE or ControlNet object remembers of the old weights."""
    if "size" in vars(copied) and callable(getattr(copied, "model_size", None)):
        copied.size = None
    if "multigpu_clones" in vars(copied):
        copied.multigpu_clones = {}


# ---------------------------------------------------------------- what to say


def compute_notes(patcher: Any, dtype: torch.dtype) -> Iterator[str]:
    """Yield what ComfyUI thinks of computing this model in `dtype` on its device."""
    ask = {torch.bfloat16: mm.should_use_bf16, torch.float16: mm.should_use_fp16}.get(dtype)
    name = str(dtype).removeprefix("torch.")
    if ask is not None and not ask(patcher.load_device):
        yield (f"ComfyUI does not count {patcher.load_device} among the devices with {name} "
               "arithmetic: it is emulated there, or slower than float32")
    config = getattr(patcher.model, "model_config", None)
    listed = inspect.getattr_static(config, "supported_inference_dtypes", None)
    if listed and dtype not in listed and dtype != torch.float32:
        yield (f"ComfyUI does not list {name} for this architecture: results may differ, or turn "
               "black")
    if getattr(patcher, "is_clip", False) and dtype != torch.float32:
        yield "ComfyUI computes text encoders in float32: only the weights become smaller"


def accepts_dtype(carrier: Any, dtype: torch.dtype) -> bool:
    """Return whether a VAE is among those that ComfyUI runs in `dtype`; True for anything else."""
    working = getattr(carrier, "working_dtypes", None)
    return not working or dtype in working

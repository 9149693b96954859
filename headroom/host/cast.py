"""The host adapter for Cast bf16: a private copy of the weights gets a patcher of its own.

Only objects made here are changed; the given patcher and everything it shares stay as they are.
"""

import copy
import inspect
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import comfy.model_management as mm
import torch

from ..base.copies import Copies, follow
from ..base.inputs import attribute
from ..base.patches import patches_in
from ..base.said import said
from . import core as host
from . import strays

COMPILE_KEY = "torch.compile"

# ---------------------------------------------------------------- looking at the source


def unload(patcher: Any) -> None:
    """Unload what shares weights with `patcher`: loaded weights may have a LoRA merged in."""
    host.unload(host.entries_of([patcher]))


def weight_backups(patcher: Any) -> dict[str, torch.Tensor]:
    """Return the unpatched weights, by name, of a model whose weights have patches merged in."""
    return {name: entry.weight for name, entry in patcher.backup.items()}


def shared_parts(module: torch.nn.Module) -> list[Any]:
    """Return what a copy of `module` shares with it: its configuration and its patchers.

    The configuration returns None for each attribute that it lacks, `__setstate__` too, and
    Python's deepcopy fails on that. It describes the architecture and never changes.
    """
    return [
        value
        for part in module.modules()
        for name, value in vars(part).items()
        if name in ("model_config", "latent_format") or callable(attribute(value, "is_clone"))
    ]


def quantised_reason(patcher: Any) -> str:
    """Return why ComfyUI takes the whole model for quantised; "" if it does not."""
    config = getattr(patcher.model, "model_config", None)
    for mark in ("quant_config", "scaled_fp8"):
        # Newer configurations log a warning for every attribute they lack.
        if inspect.getattr_static(config, mark, None):
            return said("its {mark} says so", mark=mark)
    return ""


def compiled_reason(patcher: Any) -> str:
    """Return what on `patcher` keeps the old weights in compiled form; "" for nothing."""
    for wrappers in patcher.wrappers.values():
        if COMPILE_KEY in wrappers:
            return said("a torch.compile wrapper")
    weights = {id(parameter) for parameter in patcher.model.parameters()}
    parts = {id(part) for part in patcher.model.modules()}
    for name, patch in patcher.object_patches.items():
        if isinstance(patch, torch.nn.Module) and id(patch) not in parts:
            if any(id(parameter) in weights for parameter in patch.parameters()):
                return said("a replaced {name}", name=name)
    return ""


def device_dtype(part: torch.nn.Module, name: str, tensor: torch.Tensor) -> torch.dtype:
    """Return a dynamic model's dtype for a weight on the GPU; that of its file may differ."""
    stamped = getattr(part, f"{name}_comfy_model_dtype", None)
    return stamped if isinstance(stamped, torch.dtype) else tensor.dtype


# ---------------------------------------------------------------- the copy


def reload(recipe: tuple[Any, ...], disable_dynamic: bool = False) -> Any:
    """Return a new patcher from the loader that made the model; `recipe` is ComfyUI's own."""
    options = {"disable_dynamic": True} if disable_dynamic else {}
    loaded = recipe[0](*recipe[1], **options)
    return loaded[recipe[2]] if len(recipe) > 2 else loaded


def loader_recipe(patcher: Any) -> tuple[Any, ...] | None:
    """Return ComfyUI's recipe to load this model again; None if it has none."""
    return getattr(patcher, "cached_patcher_init", None)


def stamp(module: torch.nn.Module, targets: dict[str, torch.dtype]) -> None:
    """Tell ComfyUI the dtype of each weight on the GPU, if it keeps these dtypes at all."""
    for prefix, part in module.named_modules():
        for name, _ in part.named_parameters(prefix, recurse=False):
            mark = f"{name.rpartition('.')[2]}_comfy_model_dtype"
            if hasattr(part, mark) and name in targets:
                setattr(part, mark, targets[name])


def start_unloaded(module: torch.nn.Module) -> None:
    """Clear the state of a copied module: loaded, patched, sampled."""
    for name, value in (
        ("model_loaded_weight_memory", 0), ("lowvram_patch_counter", 0), ("model_lowvram", False),
        ("current_weight_patches_uuid", None), ("model_offload_buffer_memory", 0),
        ("current_patcher", None),
    ):
        if name in vars(module):
            setattr(module, name, value)
    for part in module.modules():
        vars(part).pop("comfy_patched_weights", None)
    strays.drop_cache(module)  # it has the dtype before the cast


def use_compute_dtype(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Let a diffusion model compute in `dtype`, whatever ComfyUI chose for its old weights."""
    if "manual_cast_dtype" in vars(module):
        told = getattr(getattr(module, "diffusion_model", None), "dtype", None)
        vars(module)["manual_cast_dtype"] = None if told == dtype else dtype


def cast_kernels(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Give the fixed kernels of ComfyUI's own filters the dtype of what they filter.

    `conv2d` takes no other: that of LTX's latent upscaler by 1.5 is a buffer and no weight.
    """
    for part in module.modules():
        kernel = part._buffers.get("kernel")
        if kernel is not None and kernel.is_floating_point() and not part._parameters \
                and type(part).__module__.startswith("comfy."):
            part._buffers["kernel"] = kernel.to(dtype)


def private_patcher(
    patcher: Any, module: torch.nn.Module, copies: Copies, recast: Callable[[Any], Any]
) -> Any:
    """Return a clone of `patcher`, with its patches, over `module` and without links to others.

    With a clone's parent and base id ComfyUI would take the copy for the original: its list of
    loaded models uses the parent when a patcher is deleted. A patcher that streams must be made
    over its model; the `clone` of other packs' classes may not be able to. `recast` casts a
    reloaded patcher, for ComfyUIs that load a model again by its recipe.
    """
    takes = inspect.signature(patcher.clone).parameters
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    if host.is_dynamic(patcher) and ("model_override" in takes or takes_any):
        copied = patcher.clone(model_override=(module, ({}, {}, {}, set())))
    else:
        copied = patcher.clone()
        copied.model = module
        copied.backup, copied.object_patches_backup, copied.pinned = {}, {}, set()
        copied.backup_buffers = {}
    copied.parent, copied.size = None, 0
    copied.hook_backup, copied.cached_hook_patches = {}, {}
    if hasattr(copied, "clone_base_uuid"):
        copied.clone_base_uuid = uuid.uuid4()
    recipe = loader_recipe(patcher)
    if recipe is not None:
        copied.cached_patcher_init = (reload_and_cast, (recipe, recast))
    followed = {**_copied_patches(copied.model_options), **copies}
    for name in ("object_patches", "model_options", "wrappers", "callbacks"):
        setattr(copied, name, follow(getattr(copied, name), followed))
    copied.additional_models.pop("multigpu", None)
    return copied


def _copied_patches(model_options: dict[str, Any]) -> Copies:
    """Return a copy of each patch that ComfyUI moves and casts with its model, in place.

    Else the original would find a hypernetwork in the dtype of the copy, and on the CPU as soon as
    the copy is unloaded.
    """
    patches = [*patches_in(model_options.get("transformer_options", {})),
               model_options.get("model_function_wrapper")]
    found = {id(one): copy.copy(one) for one in patches if hasattr(one, "to")}
    for one in found.values():
        if hasattr(one, "hypernet"):  # its modules, by size
            one.hypernet = copy.deepcopy(one.hypernet)
    return found


def reload_and_cast(
    recipe: tuple[Any, ...], recast: Callable[[Any], Any], disable_dynamic: bool = False
) -> Any:
    """Load the original again and cast it again: ComfyUI calls this for another copy."""
    return recast(reload(recipe, disable_dynamic))


def forget_carrier_state(copied: Any) -> None:
    """Clear what a copied VAE or ControlNet object stores about the old weights."""
    if "size" in vars(copied) and callable(getattr(copied, "model_size", None)):
        copied.size = None
    if "multigpu_clones" in vars(copied):
        copied.multigpu_clones = {}


# ---------------------------------------------------------------- what to say


def compute_notes(patcher: Any, dtype: torch.dtype) -> Iterator[str]:
    """Yield ComfyUI's objections to computing this model in `dtype` on its device."""
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
    """Return whether ComfyUI runs this VAE in `dtype`; True for anything but a VAE."""
    working = getattr(carrier, "working_dtypes", None)
    return not working or dtype in working

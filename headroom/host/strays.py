"""What ComfyUI leaves on the GPU when it unloads a model."""

import inspect
import sys
from collections.abc import Iterable
from typing import Any

import torch

from ..base.device import has_cuda_graph, same_device
from ..base.modules import module_of
from ..base.patches import patches_in
from ..base.tensors import bytes_on

# Dicts by the size of a picture: SAM 3 keeps 108 MiB and more, RIFE 16 MiB for 1080p.
_CACHES = ("_cache", "_warp_grids")
_PINNED = 2  # this bit of a page's residency, in comfy-aimdo
_MOST_PINS = 100  # of one page; each failed call leaves one
_OF_KERNELS = {"comfy_kitchen.backends.cuda": "_SVDQUANT_WORKSPACE_CACHE",
               "comfy_kitchen.backends.eager.convrot_w4a4": "_HADAMARD_CACHE",
               "comfy_kitchen.tensor.int8_utils": "_HADAMARD_CACHE"}


def drop_kernel_buffers() -> None:
    """Drop what comfy-kitchen's kernels keep for the next call of the same size, of any model.

    SVDQuant's work space is about 40 MiB for each size of pictures (computed, for Flux at 1024
    pixels), and stays as long as the process. A matrix of ConvRot is small, but keeps a segment of
    up to 32 MiB.
    """
    if has_cuda_graph():
        return
    for module, name in _OF_KERNELS.items():
        kept = getattr(sys.modules.get(module), name, None)
        if isinstance(kept, dict):
            kept.clear()


def drop_cache(model: Any) -> None:
    """Let a model drop what it keeps from one call to the next beside its weights.

    HiDream O1 keeps keys and values of the last two prompts, and ComfyUI has no call that clears
    them, or what other models keep (0.33.0). The next call computes them again. Jina CLIP 2 notes
    the length of its positions before it has them: after a failed call it would use shorter ones.
    """
    clear = getattr(getattr(model, "diffusion_model", None), "clear_kv_cache", None)
    if clear is not None:
        clear()
    for part in getattr(model, "modules", tuple)():  # other packs wrap things that are no module
        if type(part).__module__.startswith(("comfy.", "comfy_extras.")):
            for name in _CACHES:
                kept = vars(part).get(name)
                if isinstance(kept, dict):
                    kept.clear()
            positions = vars(part).get("pe")  # ACE-Step has those of lyrics where its input was
            if isinstance(positions, torch.Tensor) and hasattr(part, "extend_pe"):
                part.extend_pe(positions.new_empty((1, 1), device="cpu"))
            if hasattr(part, "_update_cos_sin_cache"):  # Jina CLIP 2, of NewBie
                part._update_cos_sin_cache(1, torch.device("cpu"), torch.float32)


def put_patches_away(patcher: Any) -> None:
    """Let patches of ComfyUI drop what they keep, as ComfyUI lets them when it unloads a model.

    It asks only patches that are objects with `to`. SUPIR's are methods of such an object (0.33.0),
    which keeps the features of the last step: about 110 MiB for a picture of 1024 pixels.
    """
    options = getattr(patcher, "model_options", {}).get("transformer_options", {})
    owners: dict[int, Any] = {id(owner): owner for one in patches_in(options)
                              if (owner := getattr(one, "__self__", None)) is not None}
    for owner in owners.values():
        is_module = isinstance(owner, torch.nn.Module)  # ComfyUI moves it itself
        if type(owner).__module__.startswith("comfy.") and hasattr(owner, "to") and not is_module:
            owner.to(patcher.offload_device)


def put_bypassed_away(patcher: Any) -> None:
    """Move LoRAs in bypass mode to RAM by ComfyUI's own function.

    It moves them to the GPU with each load of their model, and nowhere with an unload (0.33.0).
    """
    injected = [one for found in getattr(patcher, "injections", {}).values() for one in found]
    managers = [value for one in injected
                if module_of(one.inject) == "comfy.weight_adapter.bypass"
                for value in inspect.getclosurevars(one.inject)[0].values()]
    for hook in [hook for one in managers for hook in getattr(one, "hooks", ())]:
        if hook.original_forward is None:  # else its model is in use
            hook._move_adapter_weights_to_device(torch.device("cpu"))


def unpin_pages(model: Any) -> None:
    """Release pages of a dynamic model that a failed cast has pinned; call it between two calls.

    If memory runs out after a layer's pages are pinned and before ComfyUI notes its cast on the
    layer (0.33.0: the buffer of the cast cannot grow), nothing unpins them. Until the model is
    deleted neither unloading it nor the pager frees them then: up to the size of its largest layer.
    """
    for pages in getattr(model, "dynamic_vbars", {}).values():
        can_ask = hasattr(pages, "get_residency")
        for _ in range(_MOST_PINS if can_ask else 0):
            if not any(page & _PINNED for page in pages.get_residency()):
                break
            pages.unpin(pages.base_addr, pages.max_size)  # takes one pin from each page


def bring_back(patcher: Any) -> None:
    """Let ComfyUI return the parameters of an unloaded dynamic patcher that are still on its GPU.

    While ComfyUI lists what to load (0.33.0: `_load_list`) it moves parameters of modules that
    contain other modules with parameters, for instance a CLIP's `logit_scale`, and keeps no note of
    it. The same function can move them back. They are some bytes for each model, each in a segment
    of 2 to 32 MiB. The next load moves them to the GPU again. If that function has changed, nothing
    happens.
    """
    device = patcher.load_device
    if not any(same_device(one.device, device) for one in patcher.model.parameters()):
        return
    listing = getattr(patcher, "_load_list", None)
    if listing is not None and "default_device" in inspect.signature(listing).parameters:
        listing(default_device=patcher.offload_device)


def bring_back_copy(patcher: Any, loaded: Iterable[Any]) -> None:
    """Move the copy of a dynamic model that LoRA hooks sampled with back to RAM.

    ComfyUI samples with hooks on such a copy, which is not dynamic, and keeps it for the next time.
    Its list of loaded models then names the dynamic patcher instead, and unloading that leaves all
    weights of the copy on the GPU (0.33.0: `get_non_dynamic_delegate`, `_switch_parent`).
    `loaded`: the patchers in that list; a copy that is in use is one of theirs.
    """
    kept = getattr(patcher, "non_dynamic_delegate_model", None)
    make = getattr(patcher, "get_non_dynamic_delegate", None)
    if kept is None or make is None or any(other.model is kept[0] for other in loaded):
        return
    if bytes_on(kept[0], patcher.load_device):
        make().detach()

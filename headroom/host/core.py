"""The host adapter: ComfyUI's devices, loaded models and execution.

Supports every ComfyUI from 0.3.75 on by asking for features, never for versions. Nothing of
ComfyUI is replaced: these are calls to its own functions, flags and registries.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import comfy.model_management as mm
import folder_paths
import torch
from comfy.model_patcher import ModelPatcher
from comfy_execution.utils import get_executing_context

from ..base import ceiling
from ..base import device as devices
from ..base.living import living
from ..base.tensors import bytes_on
from . import strays
from .borrowed import borrowed
from .features import lost
from .reserve import has_dynamic_vram as has_dynamic_vram
from .reserve import keep_from_pages as keep_from_pages
from .reserve import reserve_bytes as reserve_bytes
from .reserve import set_reserve_bytes as set_reserve_bytes
from .spare import release_cached_results as release_cached_results
from .spare import release_idle_pins as release_idle_pins

# ---------------------------------------------------------------- devices and memory


def gpu_devices() -> list[torch.device]:
    """Return the GPUs that models can use, ComfyUI's current one first; empty in CPU mode.

    Even if ComfyUI itself uses one GPU only, nodes of other packs may use the others.
    """
    current = mm.get_torch_device()
    if current.type == "cpu":
        return []
    found = [current]
    every = list if lost("devices") else getattr(mm, "get_all_torch_devices", list)
    for device in [*every(), *devices.accelerators()]:
        if device.type != "cpu" and device not in found and device.index != current.index:
            found.append(device)
    return found


def compute_device() -> torch.device:
    device: torch.device = mm.get_torch_device()
    return device


def available_bytes(device: torch.device) -> int | None:
    """Return the bytes a new tensor could get on `device` (RAM for the CPU), by ComfyUI's count.

    At most what the ceiling of the device leaves. None if its driver cannot tell.
    """
    found = devices.told(mm.get_free_memory, device)
    return None if found is None else ceiling.within(device, int(found), dynamic_bytes)


def hidden_bytes(device: torch.device) -> int:
    """Return the bytes above the ceiling of `device` that ComfyUI nevertheless counts as free."""
    found = devices.told(mm.get_free_memory, device)
    return 0 if found is None else int(found) - (available_bytes(device) or 0)


def dynamic_bytes(device: torch.device) -> int | None:
    """Return the bytes of dynamic-VRAM pages on `device`; None if ComfyUI has none.

    torch's counters do not include these pages. Small weights of dynamic models live in ordinary
    torch memory and are left out here, so that nothing is counted twice.
    """
    if not has_dynamic_vram():
        return None
    patchers = (entry.model for entry in loaded_entries() if entry.device == device)
    with borrowed.looked_at([patcher for patcher in patchers if patcher is not None]) as living:
        return sum(
            int(patcher.loaded_size() - getattr(patcher.model, "model_loaded_weight_memory", 0))
            for patcher in living if is_dynamic(patcher))


def empty_cache() -> None:
    """Return unused blocks of the allocator to the driver, first by ComfyUI, then by torch."""
    mm.soft_empty_cache()
    devices.empty_cache()


def drop_cast_buffers() -> bool:
    """Drop the scratch buffers of weight streaming; False if ComfyUI has none.

    ComfyUI itself calls this after every node when dynamic VRAM is on, and never otherwise.
    """
    reset = getattr(mm, "reset_cast_buffers", None)
    if reset is None or lost("buffers"):
        return False
    reset()
    return True


# ---------------------------------------------------------------- loaded models


def loaded_entries() -> list[Any]:
    """Return ComfyUI's own list of loaded models (LoadedModel), most recent first, as a copy."""
    return list(mm.current_loaded_models)


def living_patchers() -> list[Any]:
    """Return every ModelPatcher of this process, loaded or not; a walk over all objects.

    It skips one that another thread is just creating: that has no model yet.
    """
    return [patcher for patcher in living(ModelPatcher) if hasattr(patcher, "model")]


def is_dynamic(patcher: Any) -> bool:
    """Return whether `patcher` streams its weights through dynamic VRAM."""
    ask = getattr(patcher, "is_dynamic", None)
    return bool(ask()) if ask is not None else False


def unloadable_bytes(entry: Any) -> int:
    """Return the bytes on the GPU that unloading this entry (LoadedModel) would free there.

    0 where unloading leaves them there. For a dynamic model these are its pages: the small weights
    beside them come back with the next load and are never much. Where another pack places the
    weights, ComfyUI counts 0: then the weights of the module count.
    """
    if entry.model is None or entry.device.type == "cpu" or devices.stays(entry.model):
        return 0
    loaded = int(entry.model.loaded_size())
    if is_dynamic(entry.model):
        loaded -= int(getattr(entry.model.model, "model_loaded_weight_memory", 0))
        return max(0, loaded)
    return loaded or bytes_on(entry.model.model, entry.device)


def same_weights(patcher: Any, other: Any) -> bool:
    """Return whether two patchers have the same weights: clones, with a LoRA or without."""
    return patcher is other or patcher.model is other.model


def entries_of(patchers: Iterable[Any]) -> list[Any]:
    """Return the loaded entries with the weights of any of `patchers`."""
    wanted = list(patchers)
    return [
        entry
        for entry in loaded_entries()
        if entry.model is not None and any(same_weights(p, entry.model) for p in wanted)
    ]


def unload(entries: Iterable[Any]) -> None:
    """Unload exactly these loaded entries through ComfyUI's `free_memory`; others stay loaded.

    `free_memory` compares LoadedModel objects, so the keep-list must contain these, not patchers.
    Entries whose patcher is gone cannot be unloaded; ComfyUI drops them in garbage collection.
    """
    targets = [entry for entry in entries if entry.model is not None]
    patchers = [entry.model for entry in targets]  # an unloaded entry may lose its patcher
    ids = {id(entry) for entry in targets}
    for device in {entry.device for entry in targets}:
        keep = [entry for entry in loaded_entries() if id(entry) not in ids]
        mm.free_memory(1e30, device, keep)
    mm.cleanup_models()
    return_strays(patchers)


def return_strays(patchers: Iterable[Any] | None = None) -> None:
    """Free what unloading left on the GPU; None: for all models, by a walk over all objects."""
    loaded = [entry.model for entry in loaded_entries() if entry.model is not None]
    if patchers is None:
        strays.drop_kernel_buffers()
    for patcher in living_patchers() if patchers is None else patchers:
        if not any(same_weights(patcher, other) for other in loaded):
            strays.drop_cache(patcher.model)
            strays.put_patches_away(patcher)
            strays.put_bypassed_away(patcher)
            if is_dynamic(patcher):
                strays.unpin_pages(patcher.model)
                strays.bring_back(patcher)
                strays.bring_back_copy(patcher, loaded)


def free_at_least(device: torch.device, wanted_bytes: int, keep: Iterable[Any]) -> None:
    """Let ComfyUI unload models, or parts of them, until `wanted_bytes` are free on `device`.

    `keep`: loaded entries that are not unloaded. It may free less; nothing is loaded again.
    """
    mm.free_memory(wanted_bytes, device, list(keep))
    mm.cleanup_models()


def release_pinned_ram(patcher: Any) -> None:
    """Let a dynamic patcher free its pinned copies in RAM; other patchers have none."""
    release = getattr(patcher, "partially_unload_ram", None)
    if release is not None and is_dynamic(patcher) and not lost("spare"):
        release(1e30)


def source_files(patcher: Any) -> list[Path]:
    """Return the weight files from which `patcher` was loaded, as far as ComfyUI knows them."""
    recipe = getattr(patcher, "cached_patcher_init", None)
    if not recipe:
        return []
    return [path for path in _paths_in(recipe[1]) if path.is_file()]


def _paths_in(value: Any) -> list[Path]:
    if isinstance(value, (str, Path)):
        return [Path(value)] if str(value) else []
    if isinstance(value, (list, tuple)):
        return [path for item in value for path in _paths_in(item)]
    return []


# ---------------------------------------------------------------- execution


def executing_node() -> tuple[str | None, str | None, int]:
    """Return (prompt id, node id, index in its list of inputs) of this thread's node.

    Outside of a node (None, None, 0).
    """
    context = get_executing_context()
    if context is None:
        return None, None, 0
    return context.prompt_id, context.node_id, context.list_index or 0


def request_cache_reset() -> None:
    """Ask ComfyUI to unload all models and forget all cached outputs after this prompt."""
    from server import PromptServer

    PromptServer.instance.prompt_queue.set_flag("free_memory", True)


def temp_folder() -> Path:
    folder = Path(folder_paths.get_temp_directory())
    folder.mkdir(parents=True, exist_ok=True)
    return folder

"""Unload models: ComfyUI's by ComfyUI, pipelines by their own API, others by `.to`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ..base.device import MIB, same_device, stays
from ..base.said import said
from ..base.tensors import bytes_on, module_bytes
from ..host.adapter import current_host
from .find import FoundModel
from .unmanaged import has_offload_hook, is_shell, move_away, offload_pipeline


@dataclass(frozen=True)
class Unloaded:
    """What happened to one model: the bytes that left the devices, and a sentence."""

    moved_bytes: int
    text: str
    stays: bool = False  # ComfyUI keeps it on the GPU


def unload_models(models: Iterable[FoundModel]) -> list[Unloaded]:
    """Unload exactly these models from the devices; every other model stays.

    Clones share weights with their original (LoRA clones too), so they are unloaded together.
    Raises what the owner of the model raises; each model is then either unloaded or unchanged.
    """
    return [_unload(model) for model in models]


def _unload(model: FoundModel) -> Unloaded:
    if model.kind == "patcher":
        return _unload_patcher(model)
    if model.kind != "pipeline" and is_shell(model.modules[0]):
        return Unloaded(0, said("{model}: 0 MiB, {why}", model=model.label,
                                why=said("its pack loads its weights when it uses it")))
    before = device_bytes(model.modules)
    how = _move(model) if before or model.kind == "pipeline" else ""
    moved = before - device_bytes(model.modules)
    if before and moved == 0 and any(map(has_offload_hook, model.modules)):
        raise ValueError(said(
            "Offload Model cannot move this {model}: accelerate or diffusers has spread it over "
            "devices and moves its inputs and weights itself; use the offloading of that library, "
            "or load the model without device_map.", model=model.label))
    if moved == 0:
        return Unloaded(0, said(
            "{model}: 0 MiB, it was already on the CPU (not managed by ComfyUI)",
            model=model.label))
    return Unloaded(moved, said(
        "{model}: {moved_mib} of weights unloaded (not managed by ComfyUI: {how})",
        model=model.label, moved_mib=moved / MIB, how=how))


def _move(model: FoundModel) -> str:
    if model.kind == "pipeline":
        return offload_pipeline(model.handle)
    move_away(model.handle)
    return said("moved with .to('cpu')")


def _unload_patcher(model: FoundModel) -> Unloaded:
    host = current_host()
    entries = host.entries_of([model.handle]) if host is not None else []
    if host is not None and not entries and _is_moved_by_its_pack(model.handle, host):
        return _unload(FoundModel("module", model.handle.model))
    if host is not None and stays(model.handle) and device_bytes([model.handle.model]):
        host.unload(entries)
        return Unloaded(0, said("{model}: 0 MiB, ComfyUI keeps it on the GPU (--highvram or "
                                "--gpu-only)", model=model.label), stays=True)
    if host is None or not entries:
        return Unloaded(0, said("{model}: 0 MiB, it was not loaded", model=model.label))
    parts = [_parts(entry, host) for entry in entries]
    loaded = sum(map(_weights_there, entries, parts))
    host.unload(entries)
    if all(entry.device.type == "cpu" for entry in entries):
        return Unloaded(0, said("{model}: 0 MiB, it runs on the CPU", model=model.label))
    moved = loaded - sum(map(_weights_there, entries, parts))
    text = said("{model}: {moved_mib} of weights unloaded",
                model=model.label, moved_mib=moved / MIB)
    return Unloaded(moved, text)


def _is_moved_by_its_pack(patcher: Any, host: Any) -> bool:
    """Return whether a model that ComfyUI has not loaded, and would keep in RAM, is on a device.

    Video wrappers use a patcher only to carry a model and its LoRAs.
    """
    keeps_in_ram = patcher.offload_device.type == "cpu" and not host.is_dynamic(patcher)
    return keeps_in_ram and device_bytes([patcher.model]) > 0


def _parts(entry: Any, host: Any) -> torch.nn.ModuleList | None:
    """Return all modules of an entry whose tensors tell what is on its GPU.

    ComfyUI takes out what packs put in (AnimateDiff's motion modules), and leaves it on the GPU.
    """
    if entry.model is None or host.is_dynamic(entry.model):
        return None
    return torch.nn.ModuleList(entry.model.model.modules())


def _weights_there(entry: Any, parts: torch.nn.ModuleList | None) -> int:
    """Return the bytes of an entry's weights on its GPU, counted in its tensors, if they are there.

    Layers of other packs (GGUF) tell ComfyUI more than their weights take: room for their work.
    """
    return loaded_bytes(entry) if parts is None else bytes_on(parts, entry.device)


def loaded_bytes(entry: Any) -> int:
    """Return the bytes of a loaded entry's weights on its GPU; 0 for one that runs on the CPU.

    Where another pack places the weights (DisTorch), ComfyUI counts 0: then the module's own count.
    A copy that a dynamic model keeps for sampling with hooks counts too.
    """
    if entry.model is None or entry.device.type == "cpu":
        return 0
    own = int(entry.model.loaded_size()) or bytes_on(entry.model.model, entry.device)
    kept = getattr(entry.model, "non_dynamic_delegate_model", None) or (None,)
    return own + bytes_on(kept[0], entry.device)


def others(
    kept: Iterable[FoundModel], device: torch.device | None = None
) -> list[FoundModel]:
    """Return every model ComfyUI has loaded, except `kept` and what shares weights with them.

    device: only what is loaded there.
    """
    host = current_host()
    if host is None:
        return []
    keep = host.entries_of([model.handle for model in kept if model.kind == "patcher"])
    kept_ids = {id(entry) for entry in keep}
    return [
        FoundModel("patcher", entry.model)
        for entry in host.loaded_entries()
        if entry.model is not None and id(entry) not in kept_ids
        and (device is None or same_device(entry.device, device))
    ]


def device_bytes(modules: Iterable[torch.nn.Module]) -> int:
    return sum(size for name, size in module_bytes(modules).items() if name != "cpu")

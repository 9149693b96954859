"""Weights that make room: those of other models, and a call's own."""

from collections.abc import Sequence
from typing import Any

import torch

from ..base.device import same_device, stays
from ..host.adapter import current_host, guard_host
from ..models.find import FoundModel
from ..models.unload import others, unload_models
from .lack import Lack

NOTABLE_BYTES = 1 << 20  # every model keeps less than this loaded: not worth freeing
EVERYTHING = 1 << 60  # more room than any card has: all weights that can be streamed are
_SPARE = 1.5  # times what was missing: the call will ask for more tensors


def other_bytes(in_use: Sequence[Any], lack: Lack) -> int:
    """Return the bytes that unloading the models a call does not use would free for it.

    0 if RAM ran out: the weights would go there. Pages of dynamic VRAM are freed by themselves;
    only those that were not freed for the failed call count.
    """
    host = current_host()
    if host is None or lack.where == "RAM":
        return 0
    patchers = [model.handle for model in _others(in_use, lack.device)]
    total = loaded_bytes(patchers)
    if lack.missing_bytes is not None:
        in_pages = loaded_bytes([one for one in patchers if host.is_dynamic(one)])
        total -= in_pages - min(in_pages, lack.stuck_bytes)
    return total if total >= NOTABLE_BYTES else 0


def unload_others(in_use: Sequence[Any], device: torch.device | None) -> int:
    """Unload the models on `device` (None: on all) that are not in use; return how many."""
    found = _others(in_use, device)
    unload_models(found)
    return len(found)


def own_bytes(in_use: Sequence[Any], lack: Lack) -> int:
    """Return the bytes of its own weights on the full device that a call can stream instead."""
    if lack.where == "RAM":
        return 0
    loaded = loaded_bytes(_streamable(in_use, lack.device))
    return loaded if loaded >= NOTABLE_BYTES else 0


def room_bytes(in_use: Sequence[Any], lack: Lack, is_again: bool) -> int:
    """Return how much to keep free of a call's own weights: what is missing and more, or all."""
    loaded = own_bytes(in_use, lack)
    missing = (lack.asked_bytes or 0) if lack.missing_bytes is None else lack.missing_bytes
    part = max(int(missing * _SPARE), loaded // 4)
    if is_again or lack.room_bytes is None or part > loaded // 2:
        return EVERYTHING
    return lack.room_bytes + part


def make_room(in_use: Sequence[Any], wanted_bytes: int) -> int:
    """Offload a call's own weights until `wanted_bytes` are free; return the bytes offloaded."""
    guard = guard_host()
    return guard.make_room(in_use, wanted_bytes) if guard is not None and wanted_bytes else 0


def hidden_bytes(patcher: Any) -> int:
    """Return the bytes above the device's ceiling that ComfyUI takes for room for weights.

    0 for a dynamic model: its pager knows the ceiling.
    """
    host = current_host()
    is_classic = host is not None and not host.is_dynamic(patcher)
    return host.hidden_bytes(patcher.load_device) if host is not None and is_classic else 0


def loaded_bytes(patchers: Sequence[Any]) -> int:
    """Return how many bytes on their GPUs unloading these models frees."""
    host = current_host()
    if host is None:
        return 0
    return sum(int(host.unloadable_bytes(entry)) for entry in host.entries_of(patchers))


def paged_bytes(patcher: Any) -> int:
    """Return the bytes of weights of this model that are kept in pages; 0: it has no pages."""
    host = current_host()
    return int(patcher.model_size()) if host is not None and host.is_dynamic(patcher) else 0


def found(patchers: Sequence[Any]) -> list[FoundModel]:
    return [FoundModel("patcher", patcher) for patcher in patchers]


def _others(in_use: Sequence[Any], device: torch.device | None) -> list[FoundModel]:
    return [model for model in others(found(in_use), device) if loaded_bytes([model.handle])]


def _streamable(in_use: Sequence[Any], device: torch.device | None) -> list[Any]:
    """Return the models whose weights stay off the full device after they are offloaded.

    Not dynamic models: the next call loads their pages again, and the pager had freed all it could.
    Nor models that ComfyUI keeps on the GPU.
    """
    host = current_host()
    return [one for one in in_use if host is not None and not host.is_dynamic(one)
            and not stays(one) and (device is None or same_device(one.load_device, device))]

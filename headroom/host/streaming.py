"""The buffers through which ComfyUI streams weights that do not stay on the device."""

import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import comfy.model_management as mm
import torch

from . import core as host
from . import strays
from .features import lost

_GROWTH_BYTES = 16 << 20  # comfy-aimdo's buffers grow in such steps


def buffers_bytes() -> int:
    """Return the bytes of the existing buffers; they grow with the layers that need them."""
    torchs = getattr(mm, "STREAM_CAST_BUFFERS", {}).values()
    pagers = getattr(mm, "STREAM_AIMDO_CAST_BUFFERS", {}).values()
    return sum(int(one.nbytes) for one in torchs) + sum(int(one.size()) for one in pagers)


def buffers_needed_bytes(patchers: Iterable[Any]) -> int:
    """Return the bytes that the buffers will have after each layer has been streamed once.

    There is one buffer for each stream (0.33.0: two on NVIDIA and AMD), as large as the largest
    layer so far. 0 on ComfyUIs without buffers. Walks over all modules: some milliseconds for a
    large model.
    """
    return sum(_sizes_needed(patchers)) if hasattr(mm, "STREAM_CAST_BUFFERS") else 0


def make_buffers(patchers: Sequence[Any]) -> None:
    """Let the pager's buffers grow now, if not all weights of dynamic models fit.

    Else they grow in the middle of a call, when torch's cache has taken what was free and returns
    nothing to the pager: SD1.5 on 678 MiB failed by 50 MiB, with 430 MiB unused in the cache. It
    raises what a layer without enough memory would raise. It checks each layer only if weights
    stream.
    """
    own = [patcher for patcher in patchers if host.is_dynamic(patcher)]
    is_known = hasattr(mm, "get_offload_stream") and hasattr(mm, "get_aimdo_cast_buffer")
    if not own or not is_known or lost("buffers"):
        return
    device = own[0].load_device
    room = (host.available_bytes(device) or 0) + (host.dynamic_bytes(device) or 0)
    if sum(int(patcher.model_size()) for patcher in own) <= room:
        return
    sizes = _sizes_needed(own)
    if sum(sizes) > buffers_bytes():
        host.empty_cache()
        for size in sizes:
            stream = mm.get_offload_stream(device)
            if stream is not None:  # without streams torch makes a tensor for each layer
                mm.get_aimdo_cast_buffer(stream, device).get(size)


def _sizes_needed(patchers: Iterable[Any]) -> list[int]:
    streams = max(1, int(getattr(mm, "NUM_STREAMS", 0)))
    sizes = [size for patcher in patchers for size in _streamed_layers(patcher)]
    return sorted(sizes, reverse=True)[:streams]


def _streamed_layers(patcher: Any) -> Iterable[int]:
    """Yield the size in a buffer of each layer whose weights are not on the device."""
    step = _GROWTH_BYTES if host.is_dynamic(patcher) else 1
    for module in patcher.model.modules():
        weight = getattr(module, "weight", None)
        if not hasattr(module, "comfy_cast_weights") or not isinstance(weight, torch.Tensor):
            continue
        if weight.device.type != patcher.load_device.type:
            size = weight.nbytes + getattr(getattr(module, "bias", None), "nbytes", 0)
            yield -(-size // step) * step


def has_half_pages() -> bool:
    """Return whether a failed call has left a page that is marked as complete but is not.

    Its model must be unloaded before it is used again.
    """
    return any(is_incomplete_page(layer) for layer in half_cast(_dynamic()))


def forget_half_casts() -> None:
    """Discard unfinished casts, so that no later call uses them; call it while they are loaded.

    It uses ComfyUI's own function for layers that were cast ahead. Then no page is in use.
    """
    clean_up = _function("comfy.model_prefetch", "cleanup_prefetched_modules")
    if clean_up is not None:
        takes_block = len(inspect.signature(clean_up).parameters) > 1  # from 0.33.0 on
        for layer in half_cast(_dynamic()):
            clean_up(*[layer] * takes_block, [layer])
        for patcher in _dynamic():
            strays.unpin_pages(patcher.model)


def half_cast(patchers: Iterable[Any]) -> list[Any]:
    """Return the layers of dynamic models whose cast a failed call did not finish.

    ComfyUI 0.33.0 stores on a layer what its cast has begun (`_prefetch`, in comfy/ops.py) until
    the cast is done. If memory runs out in between, it stays there, and the next call of the layer
    uses it: an address that was freed long ago (a crash on the fake driver), or a page without the
    LoRA. It walks over all modules.
    """
    return [module for patcher in patchers for module in patcher.model.modules()
            if "_prefetch" in vars(module)]


def is_incomplete_page(module: Any) -> bool:
    """Return whether the layer's page is marked as complete but is not."""
    begun = vars(module)["_prefetch"]
    signature = begun.get("signature") if isinstance(begun, dict) else None
    return (signature is not None and not begun.get("resident")
            and getattr(module, "_v_signature", None) is signature)


def _dynamic() -> list[Any]:
    models = [entry.model for entry in host.loaded_entries()]
    return [model for model in models if model is not None and host.is_dynamic(model)]


def settle_streaming() -> None:
    """Clean up weight streaming after a failed call, as the executor does after every node.

    It also discards casts that the call did not finish.
    """
    if (clean_up := _function("comfy.model_prefetch", "cleanup_prefetch_queues")) is not None:
        clean_up()
    forget_half_casts()
    host.drop_cast_buffers()
    reset = _function("comfy_aimdo.model_vbar", "vbars_reset_watermark_limits")
    if reset is not None and host.has_dynamic_vram():
        reset()


def recording_paused() -> AbstractContextManager[Any]:
    """Return ComfyUI's own context that pauses its record of allocations, if it keeps one."""
    pause = _function("comfy.model_prefetch", "pause_malloc_graph")
    return nullcontext() if pause is None else pause()


def _function(module: str, name: str) -> Callable[..., Any] | None:
    """Return a function that only some ComfyUIs have; None if it is not there."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None

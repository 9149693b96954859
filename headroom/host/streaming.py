"""The buffers through which ComfyUI streams weights that do not stay on the device."""

import importlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import comfy.model_management as mm
import torch

from . import core as host
from .features import lost
from .half_cast import forget, half_cast, is_incomplete_page

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
    """Discard unfinished casts, so that no later call uses them; call it while they are loaded."""
    forget(half_cast(_dynamic()))


def _dynamic() -> list[Any]:
    models = [entry.model for entry in host.loaded_entries()]
    return [model for model in models if model is not None and host.is_dynamic(model)]


def settle_streaming() -> None:
    """Clean up weight streaming after a failed call, as the executor does after every node.

    It also discards casts that the call did not finish.
    """
    _call_if_there("comfy.model_prefetch", "cleanup_prefetch_queues")
    forget_half_casts()
    host.drop_cast_buffers()
    if host.has_dynamic_vram():
        _call_if_there("comfy_aimdo.model_vbar", "vbars_reset_watermark_limits")


def recording_paused() -> AbstractContextManager[Any]:
    """Return ComfyUI's own context that pauses its record of allocations, if it keeps one."""
    try:
        prefetch = importlib.import_module("comfy.model_prefetch")
    except ImportError:
        return nullcontext()
    pause: Callable[[], AbstractContextManager[Any]] | None
    pause = getattr(prefetch, "pause_malloc_graph", None)
    return nullcontext() if pause is None else pause()


def _call_if_there(module: str, name: str) -> None:
    function: Callable[[], object] | None
    try:
        function = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return
    if function is not None:
        function()

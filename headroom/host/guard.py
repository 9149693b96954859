"""The host adapter for OOM Guard: loading, offloading, wrappers and clean-up.

Sampling and the streaming of weights are in modules of their own, which guard/ uses through this
one. Nothing of ComfyUI is replaced. Everything here calls a function that ComfyUI itself calls in
the same situation; functions that only newer ComfyUIs have are tested for first.
"""

import importlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import comfy.controlnet
import comfy.model_management as mm
import comfy.model_patcher
import comfy.sd
import torch
from comfy.patcher_extension import WrappersMP
from comfy.utils import tiled_scale as tiled_scale

from ..base.inputs import attribute
from . import core as host
from . import sampling as sampling
from . import strays
from . import streaming as streaming
from .features import lost
from .streaming import recording_paused as recording_paused

_CPU = torch.device("cpu")

WRAPPERS = (
    WrappersMP.OUTER_SAMPLE, WrappersMP.PREPARE_SAMPLING, WrappersMP.PREDICT_NOISE,
    WrappersMP.CALC_COND_BATCH, WrappersMP.APPLY_MODEL,
)

# ---------------------------------------------------------------- errors and interrupts


def is_interrupt(error: BaseException) -> bool:
    """Return whether `error` is the user's interrupt; a plain Exception on older ComfyUIs."""
    return isinstance(error, mm.InterruptProcessingException)


def is_host_oom(error: BaseException) -> bool:
    """Return ComfyUI's own answer; newer ComfyUIs also discard the pending CUDA error."""
    ask = getattr(mm, "is_oom", None)
    if ask is not None:
        return bool(ask(error))
    # A torch without that class would make every error look like out of memory.
    return mm.OOM_EXCEPTION is not Exception and isinstance(error, mm.OOM_EXCEPTION)


def says_left_out(record: logging.LogRecord) -> bool:
    """Return whether in this line ComfyUI says that it continues without a LoRA or a ControlNet.

    Its adapters catch every error while they compute a weight, and so does the code that adds a
    ControlNet's output, or that extracts a LoRA from a model; all log it.
    """
    adapts_weights = Path(record.pathname).parent.name == "weight_adapter"
    return adapts_weights or record.funcName in ("apply_control", "calc_lora_model")


def check_interrupt() -> None:
    mm.throw_exception_if_processing_interrupted()


# ---------------------------------------------------------------- what is on the wire


def wire_type_of(value: Any) -> str | None:
    """Return the type of wire that carries values of this class, if we guard it; else None."""
    if isinstance(value, comfy.sd.VAE):
        return "VAE"
    if isinstance(value, comfy.sd.CLIP):
        return "CLIP"
    if isinstance(value, comfy.controlnet.ControlBase):
        return "CONTROL_NET"
    if hasattr(value, "add_wrapper_with_key"):
        return "MODEL" if hasattr(attribute(value, "model"), "apply_model") else None
    # spandrel's ImageModelDescriptor; the library may not be installed.
    if callable(getattr(value, "_call_fn", None)) and hasattr(value, "model"):
        return "UPSCALE_MODEL"
    return None


# ---------------------------------------------------------------- wrappers


def foreign_wrappers(transformer_options: dict[str, Any], key: str) -> bool:
    """Return whether another pack wraps the network itself or each call of it."""
    wrappers = transformer_options.get("wrappers", {})
    kinds = (WrappersMP.APPLY_MODEL, WrappersMP.DIFFUSION_MODEL)
    return any(
        functions and name != key
        for kind in kinds
        for name, functions in wrappers.get(kind, {}).items()
    )


def is_injected(executor: Any) -> bool:
    """Return whether another pack has put its own layers into the network of this call."""
    patcher = getattr(executor.class_obj, "current_patcher", None)
    return bool(getattr(patcher, "injections", None))


# ---------------------------------------------------------------- loading and offloading


def _offload_weights(patchers: Sequence[Any], wanted_bytes: int) -> int:
    """Offload at least `wanted_bytes`, as far as weights can stream; return the bytes freed.

    It is safe between two calls of the model: the next call streams in what was offloaded.
    """
    entries = [e for e in host.entries_of(patchers) if e.device.type != "cpu"]
    before = sum(int(entry.model.loaded_size()) for entry in entries)
    freed = 0
    for entry in entries:
        wanted = wanted_bytes - freed
        if wanted <= 0:
            break
        freed += int(entry.model.partially_unload(entry.model.offload_device, wanted) or 0)
    if any(_has_stranded_weights(entry.model) for entry in entries):
        mm.load_models_gpu([entry.model for entry in entries], memory_required=1e20)
    return before - sum(int(entry.model.loaded_size()) for entry in entries)


def _has_stranded_weights(patcher: Any) -> bool:
    """Return whether a layer that cannot stream its weights was taken off the device."""
    return any(
        parameter.device.type == "cpu"
        for module in patcher.model.modules()
        if getattr(module, "comfy_patched_weights", None) is False
        and not hasattr(module, "comfy_cast_weights")
        for parameter in module.parameters(recurse=False)
    )


def load_reserving(patchers: Sequence[Any], reserve_bytes: float) -> None:
    """Load `patchers` so that `reserve_bytes` stay free for the computation, if possible."""
    mm.load_models_gpu(list(patchers), memory_required=reserve_bytes)


def make_room(patchers: Sequence[Any], room_bytes: int) -> int:
    """Offload as few weights as possible until `room_bytes` are free; return the bytes freed.

    Models under dynamic VRAM make room by themselves.
    """
    classic = [patcher for patcher in patchers if not host.is_dynamic(patcher)]
    freed = 0
    for device in {patcher.load_device for patcher in classic if patcher.load_device.type != "cpu"}:
        available = host.available_bytes(device)
        missing = 0 if available is None else room_bytes - available
        if missing > 0:
            here = [patcher for patcher in classic if patcher.load_device == device]
            freed += _offload_weights(here, missing)
    return freed


def load_again(patchers: Sequence[Any]) -> None:
    """Load models that were unloaded, or that cleaning up the streaming has marked inactive.

    ComfyUI does the same during sampling after a ControlNet has used a VAE.
    A loaded model is not touched: it may have been offloaded in part on purpose.
    """
    on_gpu = [patcher for patcher in patchers if patcher.load_device.type != "cpu"]
    if any(host.is_dynamic(one) or not host.entries_of([one]) for one in on_gpu):
        mm.load_models_gpu(list(patchers))


def models_beside(guider: Any) -> list[Any]:
    """Return the patchers of other models that a guider has loaded before its own.

    Dual Model CFG Guider computes the negative conditioning with one, and loads it only once.
    """
    kind = comfy.model_patcher.ModelPatcher
    return [one for one in vars(guider).values() if isinstance(one, kind)
            and one is not guider.model_patcher and host.entries_of([one])]


# ---------------------------------------------------------------- text encoders


def drop_caches(patchers: Sequence[Any]) -> None:
    """Let models drop what a call that failed may have left incomplete beside their weights."""
    for patcher in patchers:
        strays.drop_cache(patcher.model)


def clip_on_cpu(clip: Any) -> Any | None:
    """Return a clone of a CLIP that encodes on the CPU; None if ComfyUI cannot make one.

    It uses ComfyUI's own node for that, if there is one: it reads a model under dynamic VRAM from
    its file again. An older ComfyUI has no dynamic models, and there a patcher with the CPU as both
    of its devices is what its loader makes for the device `cpu`.
    """
    if lost("clip"):
        return None
    try:
        select = importlib.import_module("comfy_extras.nodes_multigpu").SelectCLIPDeviceNode
    except (ImportError, AttributeError):
        clone = None if host.is_dynamic(clip.patcher) else clip.clone()
        if clone is not None:
            vars(clone.patcher).update(load_device=_CPU, offload_device=_CPU)
        return clone
    clone = select.execute(clip, "cpu").args[0]
    return clone if clone.patcher.load_device.type == "cpu" else None

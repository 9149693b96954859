"""ComfyUI's sampling as OOM Guard needs it: what it loads, what it needs, how it starts again."""

from collections.abc import Iterable, Sequence
from typing import Any

import comfy.sampler_helpers
import comfy.samplers

# Pixels along one side of a latent pixel where it is not 8, by latent format; each before its base.
_PIXELS = {"SC_Prior": 42, "SC_B": 4, "Flux2": 16, "LTXV": 32, "Wan22": 16, "HunyuanImage21": 32,
           "HunyuanVideo15": 16, "ChromaRadiance": 1}


def estimated_bytes(model: Any, shape: Sequence[int]) -> float:
    """Return ComfyUI's estimate for one call of a diffusion model with inputs of `shape`."""
    return float(model.memory_required(list(shape)))


def picture_size(model: Any, shape: Sequence[int]) -> str:
    """Return the size in pixels of the picture that latents (B, C, ..., H, W) decode to.

    Empty for latents of sound.
    """
    if len(shape) < 4:
        return ""
    latents = model.latent_format
    ratio = getattr(latents, "spacial_downscale_ratio", None)
    if ratio is None:  # an older host
        names = {cls.__name__ for cls in type(latents).__mro__}
        ratio = next((side for name, side in _PIXELS.items() if name in names), 8)
    return f"{int(shape[-1] * ratio)}x{int(shape[-2] * ratio)}"


def additional_models(patcher: Any, conds: dict[str, Any]) -> list[Any]:
    """Return the patchers that sampling with `conds` loads beside `patcher` (ControlNets ...)."""
    found, _ = comfy.sampler_helpers.get_additional_models(conds, patcher.model_dtype())
    return [*found, *patcher.get_nested_additional_models(), *patcher.model_patches_models()]


def start_sampling(guider: Any) -> None:
    """Reset ControlNets, whatever an earlier sampling left in them.

    ComfyUI cleans them up only after a sampling without failure. The next sampling, even of another
    prompt, would use a hint that is only half prepared.
    """
    _clean_up_controls(getattr(guider, "conds", {}).values())


def end_sampling(guider: Any) -> None:
    """Clean up after a sampling that failed, as ComfyUI does after one that succeeded."""
    guider.model_patcher.cleanup()
    comfy.sampler_helpers.cleanup_models({}, getattr(guider, "loaded_models", []))
    _clean_up_controls(getattr(guider, "conds", {}).values())


def _clean_up_controls(conds: Iterable[Any]) -> None:
    """Clean up each ControlNet that holds something; an unprepared Control-LoRA would fail."""
    controls = {id(control): control for cond in conds for entry in cond or []
                if (control := entry.get("control")) is not None}
    for control in controls.values():
        held = (getattr(control, "timestep_range", True), getattr(control, "cond_hint", None))
        if held != (None, None):  # a pack's own class may lack them
            control.cleanup()


def reset_conditioning(model: Any, conds: Sequence[Any]) -> None:
    """Reset ControlNets and weight hooks to their state before the failed step.

    A ControlNet that failed while it prepared its hint would use the unfinished hint. An incomplete
    set of hooked weights, on the model or in its cache, would be used as complete. After this call
    both start again.
    """
    patcher = getattr(model, "current_patcher", None)
    if patcher is not None:
        patcher.clean_hooks()
    _clean_up_controls(conds)
    for cond in conds:
        comfy.samplers.pre_run_control(model, cond or [])

"""ComfyUI's sampling as OOM Guard needs it: what it loads, what it needs, how it starts again.

And whether a failed step can be repeated alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import comfy.sampler_helpers
import comfy.samplers
from comfy.patcher_extension import WrappersMP

from ..base.modules import module_of
from ..base.patches import patches_in

# Pixels along one side of a latent pixel where it is not 8, by latent format; each before its base.
_PIXELS = {"SC_Prior": 42, "SC_B": 4, "Flux2": 16, "LTXV": 32, "Wan22": 16, "HunyuanImage21": 32,
           "HunyuanVideo15": 16, "ChromaRadiance": 1}
# Wrappers that run in every step; the others run around the whole sampling, or its loading.
_IN_STEPS = (WrappersMP.PREDICT_NOISE, WrappersMP.CALC_COND_BATCH, WrappersMP.APPLY_MODEL,
             WrappersMP.DIFFUSION_MODEL)
_FUNCTIONS = ("model_function_wrapper", "sampler_cfg_function", "sampler_pre_cfg_function",
              "sampler_post_cfg_function", "sampler_calc_cond_batch_function",
              "denoise_mask_function", "context_handler")
_STATELESS = ("comfy", "comfy_extras", "comfy_api", "torch", __name__.rpartition(".host")[0])
_STATELESS_WRAPPERS = ("comfy", "comfy_api")  # not comfy_extras: it has a step cache


def wrap_model(patcher: Any, key: str, wrappers: dict[str, Callable[..., Any]]) -> Any:
    """Return a clone of `patcher` with exactly these wrappers under `key`.

    ComfyUI appends wrappers, so those of the source under this key are removed first. Ours is the
    first around a sampling: what others begin anew with each sampling, such as EasyCache, they
    begin anew when it starts again.
    """
    clone = patcher.clone()
    for kind, wrapper in wrappers.items():
        clone.remove_wrappers_with_key(kind, key)
        clone.add_wrapper_with_key(kind, key, wrapper)
    around = clone.wrappers[WrappersMP.OUTER_SAMPLE]
    for other in [name for name in around if name != key]:
        around[other] = around.pop(other)
    return clone


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
    if ratio is None:  # an older ComfyUI
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
    """Clean up each ControlNet that was prepared; a Control-LoRA that was not would fail."""
    controls = {id(control): control for cond in conds for entry in cond or []
                if (control := entry.get("control")) is not None}
    for control in controls.values():
        held = (getattr(control, "timestep_range", True), getattr(control, "cond_hint", None))
        if held != (None, None):  # a pack's own class may lack them
            control.cleanup()


def reset_conditioning(model: Any, conds: Sequence[Any]) -> None:
    """Reset ControlNets, weight hooks and model patches to their state before the failed step.

    A ControlNet that failed while it prepared its hint would use the unfinished hint. An incomplete
    set of hooked weights, on the model or in its cache, would be used as complete. A patch
    (Z-Image's ControlNet) would go on with what it computed in the failed step; it forgets that
    when ComfyUI moves it. After this call all start again.
    """
    patcher = getattr(model, "current_patcher", None)
    if patcher is not None:
        patcher.clean_hooks()
        patcher.model_patches_to(patcher.load_device)
    _clean_up_controls(conds)
    for cond in conds:
        comfy.samplers.pre_run_control(model, cond or [])


def empty_caches(model_options: dict[str, Any]) -> list[Any]:
    """Return what is still empty of what a step fills for later steps; each has `free`.

    Wan Animate 2 keeps what the first step computed of the pose, in 8 or 4 bits if the user wants.
    A repetition of that step would find it and use it, which the first attempt did not.
    """
    cache = model_options.get("transformer_options", {}).get("animate2_cache")
    return [] if getattr(cache, "slots", True) else [cache]


def keeps_failed_steps(guider: Any, key: str) -> bool:
    """Return whether something may keep data of a failed step; `key`: of our own wrappers.

    We cannot undo that: a step that is repeated alone would use these data.
    - Code of another pack may keep data from one step to the next. A step cache (WaveSpeed's,
      TeaCache, ComfyUI's EasyCache) stores what a call computed in an object of its own. ComfyUI's
      own patches overwrite their data in every call, or drop them when models are loaded. Flux KV
      Cache does not; ComfyUI calls `cleanup` of such a patch after a sampling.
    - If ComfyUI divides a step between several GPUs (MultiGPU CFG Split) and one fails, the results
      of the others stay in its queues, and the next step would get them.

    Called once in a sampling, after its wrappers and hooks are set. A walk over all modules.
    """
    patcher, options = guider.model_patcher, guider.model_options
    if getattr(patcher, "additional_models", {}).get("multigpu"):
        return True
    own = options.get("transformer_options", {})
    parts: Iterable[Any] = (
        *_flat(options.get(name) for name in _FUNCTIONS),
        *patches_in(own),
        *patcher.object_patches.values(), *_on_modules(patcher.model),
    )
    return (
        bool(getattr(patcher, "injections", None))
        or any(_is_foreign(part, _STATELESS) or hasattr(part, "cleanup") for part in parts)
        or any(_is_foreign(part, _STATELESS_WRAPPERS) for part in _wrappers(own, key))
    )


def _wrappers(transformer_options: dict[str, Any], key: str) -> Iterator[Any]:
    by_kind = transformer_options.get("wrappers", {})
    for kind in _IN_STEPS:
        for name, functions in by_kind.get(kind, {}).items():
            if name != key:
                yield from functions


def _on_modules(model: Any) -> Iterator[Any]:
    """Yield the hooks of all modules, and what replaces a module's forward."""
    for module in model.modules():
        yield from module._forward_pre_hooks.values()
        yield from module._forward_hooks.values()
        if "forward" in vars(module):
            yield vars(module)["forward"]


def _flat(value: Any) -> Iterator[Any]:
    """Yield the functions and objects inside nested containers."""
    if isinstance(value, dict):
        yield from _flat(value.values())
    elif value is not None and not callable(value) and isinstance(value, Iterable):
        for item in value:
            yield from _flat(item)
    elif value is not None:
        yield value


def _is_foreign(part: Any, own: tuple[str, ...]) -> bool:
    if isinstance(part, (str, bytes, int, float)) or part is None:
        return False
    name = module_of(part)
    return not any(name == root or name.startswith(f"{root}.") for root in own)

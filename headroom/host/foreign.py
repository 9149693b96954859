"""What other packs have put into a model: it may keep data from one step to the next.

A step cache (WaveSpeed's, TeaCache, ComfyUI's EasyCache) stores what a call computed in an object
of its own. We cannot undo that: a step that is repeated after a failure would use data of the
failed step. ComfyUI's own patches overwrite their data in every call.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from comfy.patcher_extension import WrappersMP

from ..base.modules import module_of

# Wrappers that run in every step; the others run around the whole sampling, or its loading.
_IN_STEPS = (WrappersMP.PREDICT_NOISE, WrappersMP.CALC_COND_BATCH, WrappersMP.APPLY_MODEL,
             WrappersMP.DIFFUSION_MODEL)
_FUNCTIONS = ("model_function_wrapper", "sampler_cfg_function", "sampler_pre_cfg_function",
              "sampler_post_cfg_function", "sampler_calc_cond_batch_function",
              "denoise_mask_function", "context_handler")
_STATELESS = ("comfy", "comfy_extras", "comfy_api", "torch", __name__.rpartition(".host")[0])
_STATELESS_WRAPPERS = ("comfy", "comfy_api")  # not comfy_extras: it has a step cache


def has_foreign_parts(guider: Any, key: str) -> bool:
    """Return whether code of another pack takes part in each step; `key`: of our own wrappers.

    Called once in a sampling, after its wrappers and hooks are set. A walk over all modules.
    """
    patcher, options = guider.model_patcher, guider.model_options
    own = options.get("transformer_options", {})
    parts: Iterable[Any] = (
        *_flat(options.get(name) for name in _FUNCTIONS),
        *_flat(own.get(name) for name in ("patches", "patches_replace")),
        *patcher.object_patches.values(), *_on_modules(patcher.model),
    )
    return (
        bool(getattr(patcher, "injections", None))
        or any(_is_foreign(part, _STATELESS) for part in parts)
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

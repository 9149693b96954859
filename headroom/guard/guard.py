"""OOM Guard: give any model back guarded, so that what runs out of memory finishes anyway."""

from typing import Any

from ..host.adapter import guard_host
from .clip import guard_clip
from .controlnet import guard_control
from .model import guard_model
from .options import GuardOptions
from .upscaler import guard_upscaler
from .vae import guard_vae


def guard(value: Any, options: GuardOptions) -> Any:
    """Return `value` guarded against out-of-memory errors; the same kind, the original untouched.

    MODEL, VAE, CLIP, CONTROL_NET or UPSCALE_MODEL. Guarding twice is guarding once.
    Raises ValueError for anything else, and for a VAE or attempt count that cannot work.
    """
    host = guard_host()
    kind = host.kind_of(value) if host is not None else None
    if options.max_attempts < 1:
        raise ValueError(
            f"OOM Guard expects max_attempts of at least 1, but got {options.max_attempts}: "
            "remove the node to run without a guard."
        )
    if host is None or kind is None:
        came = "nothing" if value is None else f"a {type(value).__name__}"
        raise ValueError(
            "OOM Guard expects a MODEL, VAE, CLIP, CONTROL_NET or UPSCALE_MODEL on the input "
            f"`model`, but got {came}: connect one of these there."
        )
    if kind == "MODEL":
        return guard_model(value, options, host)
    if kind == "VAE":
        return guard_vae(_valid(value), options)
    if kind == "CLIP":
        return guard_clip(value, options)
    if kind == "CONTROL_NET":
        return guard_control(value, options)
    return guard_upscaler(value, options)


def _valid(vae: Any) -> Any:
    """Return `vae`, unless the checkpoint had none: ComfyUI then passes on an empty one."""
    if getattr(vae, "first_stage_model", None) is None or not hasattr(vae, "patcher"):
        raise ValueError(
            "OOM Guard got a VAE without weights on the input `model`: the checkpoint holds no "
            "VAE; connect the one of a Load VAE node."
        )
    return vae

"""OOM Guard: return a model that recovers when its calls run out of memory."""

from typing import Any

from ..base.guards import is_inserted
from ..base.inputs import came, expect_choice, expect_flag, expect_whole
from ..base.said import said
from ..host.adapter import guard_host
from ..host.features import lost
from ..measure.journal import executing_node, note_action
from ..models.find import is_patcher
from .call import GuardOptions, Prefer
from .clip import guard_clip
from .sampling import guard_model
from .upscaler import guard_upscaler
from .vae import guard_vae

_CONTROL_NET = said(
    "nothing changed: a ControlNet is guarded by the OOM Guard on the MODEL that samples with it. "
    "Connect an OOM Guard there"
)


def guard(value: Any, options: GuardOptions) -> Any:
    """Return a copy of `value` that is guarded against out-of-memory errors.

    `value` is a MODEL, VAE, CLIP or UPSCALE_MODEL. A second guard replaces the first. A CONTROL_NET
    is returned unchanged: the guard on the MODEL that samples with it guards it too. Raises
    ValueError for other values, for a VAE without weights and for options that cannot work; but a
    guard that Headroom inserted itself returns a value that it cannot guard unchanged.
    """
    expect_choice("OOM Guard", "prefer", options.prefer, Prefer)
    if why := lost("guard"):
        note_action("guard", 0.0, why)
        return value
    host = guard_host()
    kind = host.wire_type_of(value) if host is not None else None
    for name in ("free_other_models", "offload_weights", "split_batch", "tile_vae"):
        expect_flag("OOM Guard", name, getattr(options, name))
    expect_whole("OOM Guard", "max_attempts", options.max_attempts, least=1)
    is_ours = is_inserted(executing_node()[1])
    if is_ours and (kind is None or (kind == "VAE" and not _has_weights(value))):
        return value
    if host is None or kind is None:
        named = value.model if is_patcher(value) else value  # "a ModelPatcher" tells nothing
        raise ValueError(said(
            "OOM Guard expects a MODEL, VAE, CLIP, CONTROL_NET or UPSCALE_MODEL on the input "
            "`model`, but got {came}: connect one of these there.", came=came(named)))
    if kind == "MODEL":
        return guard_model(value, options, host)
    if kind == "VAE" and not _has_weights(value):
        raise ValueError(said(
            "OOM Guard got a VAE without weights on the input `model`: the checkpoint contains no "
            "VAE; connect the one of a Load VAE node."))
    if kind == "VAE":
        return guard_vae(value, options)
    if kind == "CLIP":
        return guard_clip(value, options)
    if kind == "CONTROL_NET":
        if not is_ours:
            note_action("guard", 0.0, _CONTROL_NET)
        return value
    return guard_upscaler(value, options)


def _has_weights(vae: Any) -> bool:
    """Return whether there are weights: ComfyUI makes an empty VAE for a checkpoint without any."""
    return getattr(vae, "first_stage_model", None) is not None and hasattr(vae, "patcher")

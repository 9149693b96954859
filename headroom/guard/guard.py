"""OOM Guard: give any model back guarded, so that what runs out of memory finishes anyway."""

from typing import Any

from ..base.choices import expect_choice
from ..base.guards import is_inserted
from ..base.inputs import expect_flag, expect_whole
from ..base.said import said
from ..host.adapter import guard_host
from ..host.features import lost
from ..measure.journal import executing_node, note_action
from .clip import guard_clip
from .options import GuardOptions, Prefer
from .sampling import guard_model
from .upscaler import guard_upscaler
from .vae import guard_vae

_CONTROL_NET = said(
    "a ControlNet is guarded by the OOM Guard on the MODEL that is sampled with it, and came out "
    "as it came in: connect a guard there"
)


def guard(value: Any, options: GuardOptions) -> Any:
    """Return `value` guarded against out-of-memory errors; the same kind, the original untouched.

    MODEL, VAE, CLIP, CONTROL_NET or UPSCALE_MODEL. Guarding twice is guarding once. A ControlNet
    comes out as it came in: the sampling that uses it guards it, by the guard on its MODEL.
    Raises ValueError for anything else, and for a VAE or attempt count that cannot work; but where
    a guard was put in without the user's doing, such a value passes as it would without it.
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
    if is_ours and not _can_be_guarded(value, kind):
        return value
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
        if not is_ours:
            note_action("guard", 0.0, _CONTROL_NET)
        return value
    return guard_upscaler(value, options)


def _can_be_guarded(value: Any, kind: str | None) -> bool:
    return kind is not None and (kind != "VAE" or _has_weights(value))


def _has_weights(vae: Any) -> bool:
    """Return whether there is a VAE: where the checkpoint has none, ComfyUI hands on a shell."""
    return getattr(vae, "first_stage_model", None) is not None and hasattr(vae, "patcher")


def _valid(vae: Any) -> Any:
    if not _has_weights(vae):
        raise ValueError(
            "OOM Guard got a VAE without weights on the input `model`: the checkpoint holds no "
            "VAE; connect the one of a Load VAE node."
        )
    return vae

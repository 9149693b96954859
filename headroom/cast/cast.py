"""Cast: make a private copy of any model's weights in another dtype, and measure it."""

import gc
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..base.copies import Copies
from ..base.device import MIB, mib_text
from ..base.inputs import came, expect_choice, expect_text
from ..base.said import joined, said
from ..host.adapter import current_host
from ..host.features import lost
from ..measure.journal import note_action
from ..measure.report import Report, nothing_done
from ..measure.snapshot import snapshot
from ..models.find import is_patcher, is_pipeline
from .carriers import carried_models, carry, self_casting_reason
from .model import cast_module, cast_patcher
from .result import CastModel
from .rules import CastRules, parse_keep
from .tensor import short

Dtype = Literal["bfloat16", "float16", "float32"]
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
NAMED_TENSORS = 6


@dataclass(frozen=True)
class Cast:
    """The new model (the same object as the input, if nothing was cast)."""

    value: Any
    report: Report
    models: tuple[CastModel, ...]

    @property
    def saved_bytes(self) -> int:
        """Bytes by which the weights became smaller; negative if they grew."""
        return sum(model.saved_bytes for model in self.models if model.copies)


def cast(value: Any, dtype: Dtype = "bfloat16", keep_float32: str = "") -> Cast:
    """Return `value` with a private copy of its floating-point weights in `dtype`.

    `value`: MODEL, CLIP, VAE, CONTROL_NET, CLIP_VISION, STYLE_MODEL, UPSCALE_MODEL, a diffusers or
    DiffSynth pipeline, or an nn.Module. `keep_float32`: parts of names, separated by commas, of
    weights that are not cast. The input, its clones and their patches do not change; its patches
    also apply to the result, and more can be added. Quantised models and models already in `dtype`
    are returned as the same object. It costs RAM for the copy, until nothing uses the original any
    more, and the precision that the dtype lacks. Raises ValueError without a model, for a float16
    overflow (with the tensor's name), and for models that cannot be copied; then nothing changed.
    """
    expect_choice("Cast bf16", "dtype", dtype, Dtype)
    expect_text("Cast bf16", "keep_float32", keep_float32)
    rules = CastRules(DTYPES[dtype], parse_keep(keep_float32))
    before = snapshot()
    if why := lost("cast"):
        return Cast(value, nothing_done(why, before), ())
    found = carried_models(value)
    if not found and not self_casting_reason(value):
        raise ValueError(said(
            "Cast bf16 expects a model on the input `model`, but got {came}: connect a MODEL, "
            "CLIP, VAE, CONTROL_NET, CLIP_VISION, UPSCALE_MODEL or a pipeline there.",
            came=came(value, has_model=False)))
    models = tuple(_cast_one(item, rules, is_pipeline(value)) for item in found)
    copies = {key: copied for model in models for key, copied in model.copies.items()}
    result = _carried(value, copies, rules.dtype) if copies else value
    gc.collect()
    report = Report(_headline(models, rules), tuple(_steps(value, models, rules)), before,
                    snapshot())
    note_action("cast", report.freed_mib, report.headline)
    return Cast(result, report, models)


def _cast_one(item: Any, rules: CastRules, is_component: bool) -> CastModel:
    if is_patcher(item):
        return cast_patcher(item, rules)
    return cast_module(item, rules, is_component)


def _carried(value: Any, copies: Copies, dtype: torch.dtype) -> Any:
    copied = carry(value, copies, dtype)
    is_model = is_patcher(copied) or isinstance(copied, torch.nn.Module)
    if current_host() is not None and not is_model:
        from ..host import cast as host_cast

        host_cast.forget_carrier_state(copied)
    return copied


# ---------------------------------------------------------------- the report


def _headline(models: tuple[CastModel, ...], rules: CastRules) -> str:
    done = [model for model in models if model.copies]
    if not done:
        reasons = list(dict.fromkeys(model.reason for model in models))
        if not reasons:
            return said("0 MiB saved: not cast")
        return said("0 MiB saved: {why}", why=joined("; ", reasons))
    saved = sum(model.saved_bytes for model in done)
    before = sum(sum(model.before.values()) for model in done)
    return said(
        "{saved_mib} saved: {before_mib} of weights are {after_mib} in {dtype}" if saved >= 0 else
        "{saved_mib} more needed: {before_mib} of weights are {after_mib} in {dtype}",
        saved_mib=abs(saved) / MIB, before_mib=before / MIB, after_mib=(before - saved) / MIB,
        dtype=short(rules.dtype))


def _steps(value: Any, models: tuple[CastModel, ...], rules: CastRules) -> list[str]:
    steps = []
    for model in models:
        steps.extend(_model_steps(model, rules))
    if not models:
        steps.append(self_casting_reason(value))
    if in_ram := [model for model in models if model.copies and model.in_ram]:
        steps.append(_cost(in_ram))
    host = current_host()
    if host is not None and any(model.copies for model in models):
        from ..host import cast as host_cast

        if not host_cast.accepts_dtype(value, rules.dtype):
            steps.append(f"ComfyUI never runs this VAE in {short(rules.dtype)} by itself: pictures "
                         "may turn black")
    return list(dict.fromkeys(steps))


def _model_steps(model: CastModel, rules: CastRules) -> list[str]:
    if model.reason:
        return [f"{model.label}: {model.reason}", *model.notes]
    steps = [f"{model.label}: {_counted(model.before)} -> {_counted(model.after)}"]
    if model.saved_bytes == 0:
        steps.append(f"{short(rules.dtype)} takes the same room as the dtype before; it only "
                     "trades range for precision")
    steps.extend(_kept(model))
    return [*steps, *model.notes]


def _counted(sizes: dict[str, int]) -> str:
    largest_first = sorted(sizes.items(), key=lambda item: -item[1])
    return " + ".join(f"{mib_text(size)} {name}" for name, size in largest_first if size)


def _kept(model: CastModel) -> list[str]:
    """Return sentences on the weights that were not cast, one for each reason."""
    sentences: list[str] = []
    for reason in dict.fromkeys(item.kept for item in model.kept):
        items = [item for item in model.kept if item.kept == reason]
        size = sum(item.parameter.numel() * item.target.itemsize for item in items)
        names = ", ".join(item.name for item in items[:NAMED_TENSORS])
        dtypes = "/".join(sorted({short(item.target) for item in items}))
        more = len(items) - NAMED_TENSORS
        others = f" and {more} more" if more > 0 else ""
        sentences.append(f"kept in {dtypes} ({reason}): {mib_text(size)} in {names}{others}")
    return sentences


def _cost(copied: list[CastModel]) -> str:
    copies = sum(sum(model.after.values()) for model in copied)
    return ("until nothing uses the original any more, the copy costs "
            f"{mib_text(copies)} of RAM on top of it")

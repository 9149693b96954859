"""Offload: take exactly one model (or every other one) off the devices, to RAM or to disk."""

import gc
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from ..base.choices import expect_choice
from ..base.named_files import files_of_values
from ..base.ram import trim_heap
from ..host.adapter import current_host, host_lookup, return_cache
from ..measure.journal import note_action
from ..measure.report import Report, mib_text
from ..measure.snapshot import freed_rss_mib, snapshot
from ..models.find import FoundModel, find_models
from ..models.unload import others, unload_models
from .mapping import Mapped, check_mappable, map_modules

Scope = Literal["this model", "every other model"]
Target = Literal["CPU", "disk"]


def offload(value: Any, scope: Scope = "this model", to: Target = "CPU") -> Report:
    """Unload the models in `value`, or all others, and report what left the devices.

    `to` = "disk" also frees the copy in RAM: the weights end up memory-mapped, bit-identical.
    They return to the device when something uses them, which costs one load from RAM or disk.
    Raises ValueError for an unknown word, when `value` holds no model or a model cannot be mapped,
    OSError when the disk refuses; the model is then as it was, at most moved to RAM.
    """
    expect_choice("Offload Model", "scope", scope, Scope)
    expect_choice("Offload Model", "to", to, Target)
    models = _models_in(value)
    before = snapshot()
    targets = others(models) if scope == "every other model" else models
    folder = _scratch_folder()
    if to == "disk":
        check_mappable(_modules(targets), folder)
    done = unload_models(targets)
    gc.collect()
    return_cache()
    steps = tuple(item.text for item in done) or ("no other model was loaded",)
    if to == "disk":
        steps = (*steps, *(_to_disk(target, folder) for target in targets), trim_heap())
    after = snapshot()
    headline = _headline(sum(item.moved_bytes for item in done), to, scope)
    if to == "disk":
        headline += f"; this process holds {-freed_rss_mib(before, after):+,.1f} MiB of RAM"
    report = Report(headline, steps, before, after)
    note_action("offload", report.freed_mib, headline)
    return report


def _models_in(value: Any) -> list[FoundModel]:
    models = find_models(value)
    if not models:
        came = "nothing" if value is None else f"a {type(value).__name__} without a model in it"
        raise ValueError(
            f"Offload Model expects a model on the input `model`, but got {came}: connect a "
            "MODEL, CLIP, VAE, CONTROL_NET or other model there."
        )
    return models


def _modules(models: Iterable[FoundModel]) -> list[Any]:
    return [module for model in models for module in model.modules]


def _scratch_folder() -> Path:
    host = current_host()
    return Path(host.temp_folder()) if host is not None else Path(tempfile.gettempdir())


def _to_disk(model: FoundModel, folder: Path) -> str:
    """Map one unloaded model's weights; a dynamic one is mapped by ComfyUI already."""
    host = current_host()
    if model.kind == "patcher" and host is not None and host.is_dynamic(model.handle):
        host.release_pinned_ram(model.handle)
        return f"{model.label}: ComfyUI already maps its weights from file; pinned RAM released"
    mapped = map_modules(model.modules, folder, _source_files(model))
    return f"{model.label}: {_where(mapped)}"


def _source_files(model: FoundModel) -> list[Path]:
    """Return the weight files that may hold this model: the host's memory, then the prompt's.

    Only bytes that are equal are used, so a file of another model does no harm.
    """
    host = current_host()
    if host is None:
        return []
    from ..host import graph as host_graph

    remembered: list[Path] = host.source_files(model.handle)
    running = host_graph.running_prompt()
    values = [node.get("inputs") for node in running[0].values()] if running is not None else []
    named = files_of_values(host_lookup(), values, (".safetensors", ".sft"))
    return list(dict.fromkeys([*remembered, *named]))


def _where(mapped: Mapped) -> str:
    return (
        f"{mib_text(mapped.own_bytes)} mapped from the model's own file, "
        f"{mib_text(mapped.scratch_bytes)} from a scratch file in ComfyUI's temp folder"
    )


def _headline(moved_bytes: int, to: Target, scope: Scope) -> str:
    which = "the model" if scope == "this model" else "every other model"
    place = "RAM" if to == "CPU" else "disk"
    if moved_bytes == 0:
        return f"0.0 MiB of weights left the GPU: {which} was not on it"
    return f"{mib_text(moved_bytes)} of weights left the GPU for {place}"

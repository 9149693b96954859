"""Offload: take exactly one model (or every other one) off the devices, to RAM or to disk."""

import gc
import tempfile
from pathlib import Path
from typing import Any, Literal

from ..base.device import MIB
from ..base.inputs import came, expect_choice
from ..base.ram import is_ram_disk, trim_heap
from ..base.said import joined, said
from ..host.adapter import current_host, read_from_disk, return_cache
from ..host.features import lost
from ..measure.journal import note_action
from ..measure.report import Report, nothing_done
from ..measure.snapshot import freed_rss_mib, snapshot
from ..models.find import FoundModel, find_models
from ..models.unload import others, unload_models
from .mapping import Mapped, check_mappable, map_modules, refused

Scope = Literal["this model", "every other model"]
Target = Literal["CPU", "disk"]


def offload(value: Any, scope: Scope = "this model", to: Target = "CPU") -> Report:
    """Unload the models in `value`, or all others, and report what left the devices.

    `to` = "disk" also frees the copy in RAM: the weights are then memory-mapped, bit-identical.
    They return to the device when something uses them, which costs one load from RAM or disk.
    Raises ValueError for an unknown word, without a model in `value`, or if a model cannot be
    mapped; DiskRefused if the disk refuses. The model is then unchanged, or only moved to RAM.
    """
    expect_choice("Offload Model", "scope", scope, Scope)
    expect_choice("Offload Model", "to", to, Target)
    if why := lost("nodes"):
        return nothing_done(why, snapshot())
    models = _models_in(value)
    before = snapshot()
    targets = others(models) if scope == "every other model" else models
    folder = _checked_folder(targets) if to == "disk" else None
    done = unload_models(targets)
    gc.collect()
    return_cache()
    steps = [item.text for item in done] or [said("no other model was loaded")]
    if folder is not None:
        steps += [*(_to_disk(target, folder) for target in targets), trim_heap()]
    after = snapshot()
    from_disk = read_from_disk([model.handle for model in targets])
    headline = _headline(sum(item.moved_bytes for item in done), to, scope, from_disk,
                         any(item.stays for item in done))
    if folder is not None:
        headline = joined("; ", [headline, _ram_text(freed_rss_mib(before, after))])
    report = Report(headline, tuple(steps), before, after)
    note_action("offload", report.freed_mib, headline)
    return report


def _models_in(value: Any) -> list[FoundModel]:
    models = find_models(value)
    if not models:
        raise ValueError(said(
            "Offload Model expects a model on the input `model`, but got {came}: connect a "
            "MODEL, CLIP, VAE, CONTROL_NET or other model there.",
            came=came(value, has_model=False)))
    return models


def _checked_folder(targets: list[FoundModel]) -> Path:
    """Return the folder for mapped weights; ValueError or DiskRefused if they cannot go there."""
    try:
        folder = _scratch_folder()
    except OSError as error:
        raise refused(error) from error
    mapped = [target for target in targets if not _is_dynamic(target)]
    check_mappable([module for target in mapped for module in target.modules], folder)
    return folder


def _to_disk(model: FoundModel, folder: Path) -> str:
    """Map one unloaded model's weights; a dynamic one is mapped by ComfyUI already."""
    host = current_host()
    if host is not None and _is_dynamic(model):
        host.release_pinned_ram(model.handle)
        return said("{model}: ComfyUI itself maps what it read from a file; pinned RAM released",
                    model=model.label)
    where = _where(map_modules(model.modules, folder))
    return said("{model}: {where}", model=model.label, where=where)


def _is_dynamic(model: FoundModel) -> bool:
    host = current_host()
    return model.kind == "patcher" and host is not None and host.is_dynamic(model.handle)


def is_disk_in_ram() -> bool:
    """Return whether what leaves RAM for "disk" would be in RAM there too."""
    return is_ram_disk(_scratch_folder())


def _scratch_folder() -> Path:
    host = current_host()
    return Path(host.temp_folder()) if host is not None else Path(tempfile.gettempdir())


def _where(mapped: Mapped) -> str:
    told = []
    if amount := mapped.before_bytes:
        told.append(said("{mapped_mib} mapped before", mapped_mib=amount / MIB))
    if amount := mapped.earlier_bytes:
        told.append(said("{mapped_mib} mapped from the scratch file of an earlier offload",
                         mapped_mib=amount / MIB))
    if amount := mapped.written_bytes:
        told.append(said("{mapped_mib} mapped from a new scratch file in ComfyUI's temp folder",
                         mapped_mib=amount / MIB))
    return joined(", ", told) if told else said("nothing to map")


def _ram_text(freed_mib: float) -> str:
    if abs(freed_mib) < 0.05:
        return said("RAM of this process stays the same")
    return said(
        "RAM of this process fell by {amount_mib}" if freed_mib > 0 else
        "RAM of this process rose by {amount_mib}", amount_mib=abs(freed_mib))


def _headline(
    moved_bytes: int, to: Target, scope: Scope, from_disk: bool, stays: bool = False
) -> str:
    if moved_bytes == 0 and stays:
        return said("0.0 MiB of weights left the GPU: ComfyUI keeps them there (--highvram or "
                    "--gpu-only)")
    if moved_bytes == 0:
        return said(
            "0.0 MiB of weights left the GPU: the model was not on it" if scope == "this model" else
            "0.0 MiB of weights left the GPU: no other model was on it")
    return said(
        "{moved_mib} of weights left the GPU for disk" if to == "disk" else
        "{moved_mib} of weights left the GPU; they come back from disk" if from_disk else
        "{moved_mib} of weights left the GPU for RAM", moved_mib=moved_bytes / MIB)

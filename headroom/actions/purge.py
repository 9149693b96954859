"""Purge: unload models, collect garbage, return the allocator's cache, and measure it."""

import gc
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from ..base.device import MIB, clear_workspaces
from ..base.inputs import came, expect_choice, expect_flag, expect_whole
from ..base.ram import trim_heap
from ..base.said import joined, said
from ..host.adapter import current_host, return_cache
from ..host.features import lost
from ..measure.journal import note_action
from ..measure.report import Report, nothing_done
from ..measure.snapshot import Snapshot, devices_in_use, others_took_bytes, snapshot
from ..models.find import FoundModel, find_models
from ..models.foreign import foreign_models, kept_models
from ..models.unload import Unloaded, loaded_bytes, others, unload_models

Unload = Literal["all models", "all but keep", "no models"]
SHOWN_MIB = 0.05  # less would be shown as 0.0


def purge(
    unload: Unload = "all models",
    keep: Any = None,
    only_below_free_mib: int = 0,
    free_ram: bool = False,
    reset_node_cache: bool = False,
    free_mib: int | None = None,
) -> Report:
    """Free VRAM in three levels (models, garbage, allocator cache) and report each.

    `keep` has the models that stay loaded with `all but keep`. With `only_below_free_mib` above 0
    nothing is done while the fullest device has at least that much room. `free_ram` also returns
    unused heap pages of this process. `reset_node_cache` takes effect after the running prompt.
    `free_mib` asks for at least so much room and frees as little as needed: garbage and cache
    first, then models or parts of them in ComfyUI's own order.
    Models are loaded again when something uses them; that is the cost.
    Raises ValueError for an unknown `unload`, for inputs of wrong types, and if `all but keep` has
    no model to keep; then nothing was done.
    """
    expect_choice("Purge VRAM", "unload", unload, Unload)
    expect_whole("Purge VRAM", "only_below_free_mib", only_below_free_mib)
    if free_mib is not None:
        expect_whole("Purge VRAM", "free_mib", free_mib)
    expect_flag("Purge VRAM", "free_ram", free_ram)
    expect_flag("Purge VRAM", "reset_node_cache", reset_node_cache)
    if why := lost("nodes"):
        return nothing_done(why, snapshot())
    before = snapshot()
    kept = _models_to_keep(unload, keep)
    room = _room_bytes()
    wanted = only_below_free_mib * MIB
    if only_below_free_mib > 0 and room is not None and room >= wanted:
        reason = said("nothing to do: {free_mib} are free, the limit is {limit_mib}",
                      free_mib=room / MIB, limit_mib=wanted / MIB)
        return _finish(said("nothing was purged"), (reason,), before)
    if free_mib is not None:
        steps, headline = _make_room(free_mib * MIB, unload, kept)
    else:
        done = [] if unload == "no models" else unload_models(others(kept))
        steps, headline = [*_unload_steps(unload, done), _collect(), _return_cache()], ""
    if free_ram:
        steps.append(trim_heap())
    if reset_node_cache:
        steps.append(_reset_node_cache())
    return _finish(headline, tuple(steps), before)


def _make_room(wanted: int, unload: Unload, kept: list[FoundModel]) -> tuple[list[str], str]:
    """Free `wanted` bytes on every device in use with less; return the steps and the headline."""
    steps: list[str] = []
    if _known_free_bytes() < wanted:
        steps += [_collect(), _return_cache()]
    host = current_host()
    if host is not None and unload != "no models" and _known_free_bytes() < wanted:
        keep = host.entries_of([model.handle for model in kept if model.kind == "patcher"])
        before = _weights_bytes()
        for device in devices_in_use():
            host.free_at_least(device, wanted, keep)
        host.return_strays()
        return_cache()  # of unloaded parts, which ComfyUI leaves in the allocator's cache
        gone = before - _weights_bytes()
        steps.append(said("models: {gone_mib} of weights unloaded", gone_mib=gone / MIB))
    reached = _known_free_bytes()
    headline = said(
        "{free_mib} are free; {wanted_mib} were asked for" if reached >= wanted else
        "{free_mib} are free, {wanted_mib} were asked for, but nothing more can be unloaded",
        free_mib=reached / MIB, wanted_mib=wanted / MIB,
    )
    return steps or [said("nothing to do: there is enough room")], headline


def free_bytes() -> int | None:
    """Return the room on the fullest device in use; RAM if models use no device.

    None if the driver of a device cannot tell.
    """
    host = current_host()
    found = snapshot()
    if not found.devices:
        return found.ram_available_bytes
    rooms = [device.available_bytes for device in found.devices]
    if host is not None:
        rooms = [host.available_bytes(device)
                 for device in devices_in_use() or [host.compute_device()]]
    known = [room for room in rooms if room is not None]
    return min(known) if len(known) == len(rooms) else None


def _known_free_bytes() -> int:
    found = free_bytes()
    if found is None:
        raise ValueError(said(
            "Purge VRAM cannot use `free_mib` here, because the driver does not tell how much is "
            "free: leave `free_mib` out."
        ))
    return found


def _weights_bytes() -> int:
    host = current_host()
    return sum(loaded_bytes(entry) for entry in host.loaded_entries()) if host else 0


def _models_to_keep(unload: Unload, keep: Any) -> list[FoundModel]:
    if unload != "all but keep":
        return []
    kept = find_models(keep)
    if not kept:
        raise ValueError(said(
            "Purge VRAM with unload = 'all but keep' expects a model on the input `keep`, but got "
            "{came}: connect a MODEL, CLIP, VAE or CONTROL_NET there, or choose 'all models'.",
            came=came(keep, has_model=False)))
    return kept


def _room_bytes() -> int | None:
    """Return the room on the fullest device, including dynamic-VRAM pages that can be freed.

    Without a driver it is what ComfyUI counts: RAM on a server that computes on the CPU.
    """
    found, host = snapshot().least_room_bytes, current_host()
    if found is None and host is not None:
        found = host.available_bytes(host.compute_device())
    return found


def _unload_steps(unload: Unload, done: Iterable[Unloaded]) -> tuple[str, ...]:
    sentences = tuple(said("models: {what}", what=item.text) for item in done)
    if unload == "no models":
        return (said("models: none unloaded, as asked"),)
    if unload == "all but keep" and not sentences:
        return (said("models: only the kept ones were loaded"),)
    return sentences or (said("models: nothing was loaded"),)


def _collect() -> str:
    return said("garbage: {count} unreachable objects collected", count=gc.collect())


def _return_cache() -> str:
    """Return the allocator's cached blocks; after garbage collection, which frees more of them."""
    reserved = _reserved_bytes()
    host = current_host()
    if host is not None:
        host.return_strays()
    dropped = host is not None and host.drop_cast_buffers()
    workspaces = clear_workspaces()
    return_cache()
    left = _reserved_bytes()
    if reserved is None or left is None:
        return said("allocator cache: returned to the driver; how much is not known")
    parts = [said("allocator cache: {returned_mib} returned to the driver",
                  returned_mib=max(0, reserved - left) / MIB)]
    if dropped:
        parts.append(said("cast buffers dropped"))
    if workspaces:
        parts.append(said("{amount_mib} of cuBLAS workspaces cleared",
                          amount_mib=workspaces / MIB))
    return joined(", ", parts)


def _reserved_bytes() -> int | None:
    found = [device.reserved_bytes for device in snapshot().devices]
    return None if None in found else sum(amount or 0 for amount in found)


def _reset_node_cache() -> str:
    host = current_host()
    if host is None:
        return said("node cache: there is none outside ComfyUI")
    host.request_cache_reset()
    return said("node cache: ComfyUI will forget every cached output after this prompt, "
                "so the next run starts from the loaders")


def _finish(headline: str, steps: tuple[str, ...], before: Snapshot) -> Report:
    after = snapshot()
    steps = (*steps, *kept_models(after), *(one.sentence() for one in foreign_models(after)))
    report = Report(headline, steps, before, after)
    if not headline:
        report = Report(_headline(report), steps, before, after)
    note_action("purge", report.freed_mib, report.headline)
    return report


def _headline(report: Report) -> str:
    if not report.after.devices:
        return said("0.0 MiB of VRAM freed: this server runs on the CPU")
    freed = report.freed_mib
    if freed is None:
        return said("how much VRAM was freed is not known: neither PyTorch nor the driver "
                    "tells here")
    took = others_took_bytes(report.before, report.after)
    return joined("; ", [_freed(freed, report), *_others(took)])


def _freed(freed_mib: float, report: Report) -> str:
    """Return a sentence on what this process freed, by its own counters."""
    if 0 < freed_mib < SHOWN_MIB:
        return said("less than 0.1 MiB of VRAM freed")
    held = [device.held_bytes for device in report.after.in_use]
    if freed_mib > 0 or None in held:
        return said("{freed_mib} of VRAM freed", freed_mib=freed_mib)
    if any(held):
        return said("0.0 MiB of VRAM freed: the {held_mib} that this process holds are in use",
                    held_mib=sum(amount or 0 for amount in held) / MIB)
    return said("0.0 MiB of VRAM freed: nothing was loaded or cached")


def _others(took_bytes: int) -> Iterator[str]:
    """Yield sentences on other changes on the devices, if the report's figures show any."""
    amount = abs(took_bytes)
    if amount < MIB:
        return
    yield said(
        "other programs took {amount_mib} meanwhile" if took_bytes > 0 else
        "{amount_mib} more came from other programs, or from outside of PyTorch",
        amount_mib=amount / MIB)

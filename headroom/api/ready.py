"""Does this server have room for what comes next? Memory that can be evicted counts as free."""

from typing import Any

from ..base.device import MIB, in_mib, mib_text, stays
from ..base.ram import ram_room_bytes
from ..base.said import Said
from ..host.adapter import current_host
from ..models.unload import loaded_bytes


def readiness(
    wanted_mib: int, queue_lengths: tuple[int, int], stuck: Said | None
) -> dict[str, Any]:
    """Return the answer of GET /headroom/ready: the room on the device that ComfyUI computes on.

    It is RAM if ComfyUI runs on the CPU. `evictable_mib` is free after unloading models that no
    prompt uses. `free_mib` is None if the driver cannot tell: then only the evictable memory
    counts. `stuck`: that the running prompt makes no progress. Nothing changes.
    """
    host = current_host()
    assert host is not None, "a route without ComfyUI"
    device, wanted = host.compute_device(), wanted_mib * MIB
    running, pending = queue_lengths
    idle = [] if running else [one for one in host.loaded_entries() if one.device == device]
    evictable = sum(loaded_bytes(one) for one in idle if one.model and not stays(one.model))
    free: int | None = host.available_bytes(device)
    if device.type == "cpu" and free is not None:
        free = min(free, ram_room_bytes())  # older ComfyUIs do not know the limit of a container
    has_room = (free or 0) + evictable >= wanted
    reason = (f"how much is free on {device} is not known" if free is None
              else f"{mib_text(free)} are free")
    if evictable:
        reason += f" and {mib_text(evictable)} more when idle models are unloaded"
    if not has_room:
        busy = "; a prompt runs, so no model counts as idle" if running else ""
        reason += f", but {mib_text(wanted)} are wanted on {device}{busy}"
    return {
        "ready": has_room and stuck is None, "reason": f"{reason if stuck is None else stuck}.",
        "device": str(device), "wanted_mib": in_mib(wanted), "free_mib": in_mib(free),
        "evictable_mib": in_mib(evictable), "running": running, "pending": pending,
    }

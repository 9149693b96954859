"""How much VRAM dynamic VRAM leaves to other programs: read and set while prompts run."""

from ..base.device import MIB
from ..base.said import NotKnown, said
from ..host.adapter import LEAVES_VRAM, current_host, has_flag
from ..measure.journal import note_action
from ..measure.snapshot import snapshot


def reserve_mib() -> float | None:
    """Return the MiB left to others; None if this ComfyUI cannot set them."""
    host = current_host()
    found = host.reserve_bytes() if host is not None else None
    return None if found is None else found / MIB


def set_reserve(wanted_mib: int) -> float:
    """Leave `mib` MiB to others from the next allocation on; return what is in effect.

    Raises NotKnown if ComfyUI cannot do it, ValueError for more than any device has.
    """
    host = current_host()
    most = max((device.total_bytes or 0 for device in snapshot().devices), default=0)
    if host is None or host.reserve_bytes() is None:
        flag = next(filter(has_flag, LEAVES_VRAM), LEAVES_VRAM[-1])
        raise NotKnown(said(
            "This ComfyUI offers no live reserve: it needs dynamic VRAM and comfy-aimdo 0.4.10 or "
            "newer; start it with {flag} instead.", flag=flag))
    if most and wanted_mib * MIB > most:
        raise ValueError(said(
            "Expected `mib` to be at most {most}, which the largest device has, but got {given}.",
            most=most // MIB, given=wanted_mib))
    found = host.set_reserve_bytes(wanted_mib * MIB) / MIB
    note_action("reserve", 0.0, said("{left_mib} of VRAM are left to other programs",
                                     left_mib=found))
    return float(found)

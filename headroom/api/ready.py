"""Does this server have room for what comes next? Memory that can be evicted counts as free."""

from dataclasses import dataclass
from typing import Any

from ..base.device import MIB, in_mib, mib_text
from ..base.said import Said
from ..host.adapter import current_host
from ..models.unload import loaded_bytes


@dataclass(frozen=True)
class Readiness:
    """The room on the device that ComfyUI runs models on, in bytes, and the wanted bytes.

    `free_bytes` are free now, `evictable_bytes` after unloading models that no prompt uses. None
    if the driver cannot tell: then nothing can be promised.
    """

    device: str
    wanted_bytes: int
    free_bytes: int | None
    evictable_bytes: int
    running: int
    pending: int
    stuck: Said | None = None  # that the running prompt makes no progress

    @property
    def is_ready(self) -> bool:
        has_room = (self.free_bytes or 0) + self.evictable_bytes >= self.wanted_bytes
        return has_room and self.stuck is None

    @property
    def reason(self) -> str:
        if self.stuck is not None:
            return f"{self.stuck}."
        evictable = f" and {mib_text(self.evictable_bytes)} more when idle models are unloaded"
        free = (f"how much is free on {self.device} is not known" if self.free_bytes is None
                else f"{mib_text(self.free_bytes)} are free")
        has = f"{free}{evictable if self.evictable_bytes else ''}"
        if self.is_ready:
            return f"{has}."
        busy = "; a prompt runs, so no model counts as idle" if self.running else ""
        return f"{has}, but {mib_text(self.wanted_bytes)} are wanted on {self.device}{busy}."

    def as_json(self) -> dict[str, Any]:
        return {
            "ready": self.is_ready, "reason": self.reason, "device": self.device,
            "wanted_mib": in_mib(self.wanted_bytes), "free_mib": in_mib(self.free_bytes),
            "evictable_mib": in_mib(self.evictable_bytes),
            "running": self.running, "pending": self.pending,
        }


def readiness(
    wanted_mib: int, queue_lengths: tuple[int, int], stuck: Said | None = None
) -> Readiness:
    """Measure the compute device (RAM if ComfyUI runs on the CPU); changes nothing."""
    host = current_host()
    assert host is not None, "a route without ComfyUI"
    device = host.compute_device()
    running, pending = queue_lengths
    idle = [entry for entry in host.loaded_entries() if entry.device == device]
    evictable = 0 if running else sum(loaded_bytes(entry) for entry in idle)
    free: int | None = host.available_bytes(device)
    return Readiness(str(device), wanted_mib * MIB, free, evictable, running, pending, stuck)

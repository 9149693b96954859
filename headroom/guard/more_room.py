"""Rung 3 for a VAE and a text encoder, which load themselves: their weights stay in RAM."""

from typing import Any

from ..base.device import MIB
from ..base.said import said
from ..host.adapter import current_host
from ..measure.report import mib_text
from .choose import NOTABLE_BYTES, RecoveryStep, bus_seconds
from .plan import Plan
from .shortage import Shortage


class MoreRoom(RecoveryStep):
    """Rung 3 for models that load themselves at each call: keep (almost) no weights loaded."""

    name = said("step_offload", "offloading its own weights")
    _ROOM = 1_000

    def __init__(self, plan: Plan, patcher: Any) -> None:
        self._plan = plan
        self._patcher = patcher

    def spares(self, shortage: Shortage) -> int | None:
        host = current_host()
        device = self._patcher.load_device
        if host is None or self._plan.room > 1 or shortage.where == "RAM" or device.type == "cpu":
            return 0
        if host.is_dynamic(self._patcher):  # its pages come back with the next call
            return 0
        loaded = sum(host.unloadable_bytes(e) for e in host.entries_of([self._patcher]))
        return int(loaded) if loaded >= NOTABLE_BYTES else 0

    def seconds(self, shortage: Shortage) -> float:
        return bus_seconds(self.spares(shortage) or 0)

    def take(self, shortage: Shortage, tries_left: int) -> str | None:
        self._plan.room = self._ROOM
        return said("guard_streamed", "offloaded its own weights as far as they can be streamed")

    def why_not(self, shortage: Shortage) -> str:
        spared = self.spares(shortage)
        if spared:
            return said("why_loaded", f"{mib_text(spared)} were loaded", loaded_mib=spared / MIB)
        return said("why_in_ram", "they were in RAM already")

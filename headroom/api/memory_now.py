"""The answer of GET /headroom/memory: devices, RAM and who holds it, models, what grows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..actions.ceiling import Limit
from ..actions.reserve import reserve_mib
from ..base.device import in_mib
from ..base.ram import ram_total_bytes
from ..base.said import Said, said_json
from ..host.adapter import pack_of
from ..host.features import losses
from ..host.types import Held
from ..measure.snapshot import DeviceMemory, Snapshot, snapshot
from ..models.foreign import foreign_models
from ..models.loaded import loaded_models
from ..models.ram_held import SeldomHeld
from ..record.highest import KeptPeaks
from ..record.over_runs import growers, levels_of, traced
from ..record.recorder import Recorder

LOOKED_AT_RUNS = 10


@dataclass(eq=False)
class MemoryNow:
    """Makes the answer, in any thread except the event loop's; costly parts not too often."""

    recorder: Recorder
    queue_lengths: Callable[[], tuple[int, int]]
    peaks: KeptPeaks
    limit: Limit
    stuck: Callable[[], Said | None]

    def __post_init__(self) -> None:
        self._foreign: tuple[list[int | None], list[dict[str, Any]]] = [], []  # with their key
        self._held: dict[str, Any] = {}
        self._seldom = SeldomHeld()

    def as_json(self) -> dict[str, Any]:
        busy = sum(self.queue_lengths()) > 0
        now = snapshot()
        found = memory_answer(now, loaded_models(), busy)
        peaks = self.peaks.as_json(now, self.recorder)
        allocated = [device.allocated_bytes for device in now.devices]
        if not busy and allocated != self._foreign[0]:
            self._foreign = allocated, [one.as_json() for one in foreign_models(now)]
        stuck = self.stuck()
        return {**found, "foreign": self._foreign[1], "ram_held": self._ram_held(now, busy),
                "grows_over_runs": self.grows(),
                "stuck": None if stuck is None else {"text": stuck, "said": said_json(stuck)},
                "reserve_mib": reserve_mib(), "limit": self.limit.as_json(), "peaks": peaks,
                "lost": [{"text": text, "said": said_json(text)} for text in losses()]}

    def grows(self, until: str | None = None) -> list[dict[str, Any]]:
        """Return the node in which RAM has grown over the last runs, up to the prompt `until`.

        It names a node only if some of the growth was traced to it. For the last run, it looks up
        who holds RAM if that is possible now.
        """
        ids = self.recorder.newest_ids()
        is_last = ids[:1] == [until]
        ids = ids[ids.index(until):] if until in ids else ids
        levels = [self.recorder.look(one, levels_of) for one in reversed(ids[:LOOKED_AT_RUNS])]
        found = growers([one for one in levels if one is not None])
        if not found and not is_last:
            return []
        held = self._ram_held(snapshot(), sum(self.queue_lengths()) > 0)
        return traced(found, held, pack_of)

    def _ram_held(self, now: Snapshot, busy: bool) -> dict[str, Any]:
        """Return who holds RAM; while prompts run, the last result: a tensor or model that is being
        looked at could be deleted in this thread instead of the prompt's.

        The record of the last run gets the first result after that run too.
        """
        if not busy and (held := self._seldom.now(now)) is not None:
            self._held = held
            for prompt_id in self.recorder.newest_ids()[:1]:
                self.recorder.look(
                    prompt_id, lambda run: None if run.ended is None else run.held_then(held))
        return self._held


def memory_answer(memory: Snapshot, models: list[Held], busy: bool) -> dict[str, Any]:
    """Return the answer of GET /headroom/memory."""
    return {
        "busy": busy,
        "devices": [_device_json(device, models) for device in memory.devices],
        "ram": {
            "rss_mib": in_mib(memory.rss_bytes),
            "available_mib": in_mib(memory.ram_available_bytes),
            "total_mib": in_mib(ram_total_bytes()),
        },
        "models": [model.as_json() for model in models],
    }


def _device_json(device: DeviceMemory, models: list[Held]) -> dict[str, Any]:
    """Split the used memory so that models, other torch, other processes and free add up."""
    in_models = sum(model.bytes for model in models if model.device == device.device)
    held = device.held_bytes
    in_models = in_models if held is None else min(in_models, held)
    return {
        "device": device.device,
        "name": device.name,
        "in_use": device.in_use,
        "total_mib": in_mib(device.total_bytes),
        "free_mib": in_mib(device.driver_free_bytes),
        "left_mib": in_mib(device.left_bytes),
        "limit_mib": in_mib(device.ceiling and device.ceiling.limit_bytes),
        "used_mib": in_mib(device.used_bytes),
        "models_mib": in_mib(in_models),
        "other_torch_mib": in_mib(None if held is None else held - in_models),
        "other_processes_mib": in_mib(device.other_bytes),
        "allocated_mib": in_mib(device.allocated_bytes),
        "reserved_mib": in_mib(device.reserved_bytes),
        "dynamic_mib": in_mib(device.dynamic_bytes),
    }

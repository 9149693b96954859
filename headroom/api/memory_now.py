"""The answer of GET /headroom/memory: devices, RAM and who holds it, models, what grows."""

from collections.abc import Callable
from typing import Any

from ..actions.ceiling import Limit
from ..actions.reserve import reserve_mib
from ..base.said import Said, said_json
from ..host.adapter import pack_of
from ..host.features import losses
from ..measure.snapshot import Snapshot, snapshot
from ..models.foreign import foreign_models
from ..models.loaded import loaded_models
from ..models.ram_held import SeldomHeld
from ..record.highest import HeldPeaks
from ..record.over_runs import growers, levels_of, traced
from ..record.recorder import Recorder
from .requests import memory_answer

LOOKED_AT_RUNS = 10


class MemoryNow:
    """Makes the answer, in any thread but the event loop's; what is costly only as often as fits.
    """

    def __init__(
        self, recorder: Recorder, queue_lengths: Callable[[], tuple[int, int]], peaks: HeldPeaks,
        limit: Limit, stuck: Callable[[], Said | None],
    ) -> None:
        self._recorder = recorder
        self._queue_lengths = queue_lengths
        self._peaks = peaks
        self._limit = limit
        self._stuck = stuck
        self._foreign: tuple[list[int | None], list[dict[str, Any]]] = [], []  # with what was then
        self._held: dict[str, Any] = {}
        self._seldom = SeldomHeld()

    def as_json(self) -> dict[str, Any]:
        busy = sum(self._queue_lengths()) > 0
        now = snapshot()
        found = memory_answer(now, loaded_models(), busy)
        peaks = self._peaks.as_json(now, self._recorder)
        allocated = [device.allocated_bytes for device in now.devices]
        if not busy and allocated != self._foreign[0]:
            self._foreign = allocated, [one.as_json() for one in foreign_models(now)]
        stuck = self._stuck()
        return {**found, "foreign": self._foreign[1], "ram_held": self._ram_held(now, busy),
                "grows_over_runs": self.grows(),
                "stuck": None if stuck is None else {"text": stuck, "said": said_json(stuck)},
                "reserve_mib": reserve_mib(), "limit": self._limit.as_json(), "peaks": peaks,
                "lost": [{"text": text, "said": said_json(text)} for text in losses()]}

    def grows(self, until: str | None = None) -> list[dict[str, Any]]:
        """Return in which node RAM has grown over the last runs, up to the prompt `until`.

        Nobody is named whom nothing of it was traced to.
        """
        ids = self._recorder.newest_ids()
        ids = ids[ids.index(until):] if until in ids else ids
        levels = [self._recorder.look(one, levels_of) for one in reversed(ids[:LOOKED_AT_RUNS])]
        found = growers([one for one in levels if one is not None])
        if not found:
            return []
        return traced(found, self._ram_held(snapshot(), sum(self._queue_lengths()) > 0), pack_of)

    def _ram_held(self, now: Snapshot, busy: bool) -> dict[str, Any]:
        """Return who holds RAM; while prompts run, as it was before: a tensor or model that is
        looked at could die in this thread and not in the prompt's.
        """
        if not busy:
            self._held = self._seldom.now(now) or self._held
        return self._held

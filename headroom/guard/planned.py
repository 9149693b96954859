"""One call of a VAE, an encoder or an upscaler: what it teaches the next call of its kind."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..host.adapter import guard_host
from ..models.find import FoundModel
from ..models.unload import unload_models
from . import lessons
from .footprint import Footprint, Measuring
from .plan import Plan
from .shortage import Shortage, lacked_so_far
from .steps import UnloadOthers, tidy
from .tiles import SmallerTiles

_SURE = 0.9  # of the room: not everything grows in proportion to the images


class PlannedCall:
    """Begins with the plan of an earlier call of this kind, and keeps its own for the next.

    in_use: the patchers of the call. device: where it runs.
    """

    def __init__(self, kind: Hashable, device: torch.device, in_use: Sequence[Any]) -> None:
        self._kind = kind
        self._device = device
        self._in_use = in_use
        self._room = lessons.room_bytes(device)
        self._missing_bytes: int | None = None
        self._measuring: Measuring | None = None
        way = lessons.recall(kind, self._room)
        self.plan = Plan() if way is None else replace(way)
        self.unload_others = UnloadOthers(lambda: in_use, self._is_alone)
        if way is not None:
            if way.alone:
                self.unload_others.take(Shortage("device", device), 1)
            if way.empty:
                unload_models([FoundModel("patcher", patcher) for patcher in in_use])
            tidy()
            lessons.note_remembered(way.words())

    def _buffers(self) -> int:
        guard = guard_host()
        return guard.buffers_needed_bytes(self._in_use) if guard is not None else 0

    def _is_alone(self) -> None:
        self.plan.alone = True

    def lacked(self, shortage: Shortage) -> None:
        """Note what one failed try lacked."""
        self._missing_bytes = lacked_so_far(self._missing_bytes, shortage)

    def begins_again(self) -> None:
        """The call is about to be tried again, with an empty cache."""
        self._measuring = Measuring(self._device, self._buffers)

    def done(self, tiles: SmallerTiles | None = None) -> None:
        """The call came to its end: keep how, if it had lacked memory."""
        if self._missing_bytes is None:
            return
        plan = replace(self.plan, fresh=True)
        took = self._measuring.done() if self._measuring is not None else None
        if took is not None and took.need_bytes:
            _grow(plan, took, tiles)
        lessons.learn(self._kind, plan, self._room, self._missing_bytes)


def _grow(plan: Plan, took: Footprint, tiles: SmallerTiles | None) -> None:
    """Make the parts of `plan` as large as fits, by what this call of it took."""
    if plan.tile is not None:
        plan.tile = tiles.larger(took) if tiles is not None else plan.tile
    elif plan.images is not None and not plan.has_failed:
        fits = int(plan.images * _SURE * took.room_bytes / took.need_bytes)
        most = min(max(fits, plan.images), plan.seen - 1)
        plan.images = -(-plan.seen // -(-plan.seen // most))


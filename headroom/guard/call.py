"""What can be changed about a call that ran out of memory (`Plan`), and what differs (`Call`)."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch

from ..base.device import MIB
from ..base.said import said
from . import weights
from .lack import Lack

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """How the next try of a call runs. None: as many, and as large, as they come."""

    parts: int | None = None  # rows of a batch, or pictures, at a time
    tile: int | None = None  # pixels of the input along a side
    frames: int | None = None  # of a video in one tile
    room_bytes: int = 0  # kept free of its own weights when they are loaded
    alone: bool = False  # no other model is loaded
    on_cpu: bool = False  # not on the GPU at all

    def room_words(self) -> list[str]:
        """Return in a short phrase what is kept free of weights, if anything."""
        if self.room_bytes >= weights.EVERYTHING:
            return [said("kept its own weights in RAM")]
        if not self.room_bytes:
            return []
        return [said("kept {kept_mib} free of weights", kept_mib=self.room_bytes / MIB)]


class Call(Generic[T]):
    """A call that can run out of memory. Calls with the same `key` need the same memory."""

    key: Hashable = None
    words = ""  # "decoding with AutoencoderKL"
    patchers: Sequence[Any] = ()  # what must stay loaded
    device: torch.device | None = None
    batch = 1
    size = ""  # of the picture, in pixels
    can_tile = False
    is_video = False

    def run(self, plan: Plan) -> T:
        raise NotImplementedError

    def reset(self) -> None:
        """Make the next try the very same call: random state, options, hints."""

    def needs(self, plan: Plan) -> float:
        """Return the bytes that the call is known to need at least."""
        return 0.0

    def lighter(self, plan: Plan, lack: Lack) -> tuple[Plan, int | None] | None:
        """Return a plan with more room kept free of its own weights, and what that spares.

        None: they are not there. Nobody can tell how much: a plan and None.
        """
        spared = weights.own_bytes(self.patchers, lack)
        room = weights.room_bytes(self.patchers, lack, plan.room_bytes > 0)
        if not spared or plan.room_bytes >= weights.EVERYTHING:
            return None
        part = room - (lack.room_bytes or 0)
        return replace(plan, room_bytes=room), min(spared, part)

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        """Return the plan with smaller parts; None: it cannot be cut further, or may not be."""
        return None

    def cut_words(self, plan: Plan) -> list[str]:
        """Return in short phrases how the parts of `plan` are run."""
        return []

    def why_whole(self, plan: Plan, lack: Lack) -> list[str]:
        """Return what `smaller` would have done, each with the reason why it did not."""
        return []

"""`Call`: something that can run out of memory. `Plan`: how its next attempt runs.

`GuardOptions`: what the user allows OOM Guard to do.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import torch

from ..base.device import MIB
from ..base.said import said
from . import weights
from .lack import Lack

T = TypeVar("T")
Prefer = Literal["same bits", "speed"]


@dataclass(frozen=True)
class GuardOptions:
    """The switches of the node; `max_attempts`: how often one failing call is repeated.

    `prefer`: if several plans fit, take one that changes no bit of the result, or the fastest.
    """

    free_other_models: bool = True
    offload_weights: bool = True
    split_batch: bool = True
    tile_vae: bool = True
    max_attempts: int = 8
    prefer: Prefer = "same bits"


@dataclass(frozen=True)
class Plan:
    """How the next attempt of a call runs. None: nothing is limited in this way."""

    parts: int | None = None  # rows of a batch, or pictures, at a time
    tile: int | None = None  # pixels of the input along a side
    frames: int | None = None  # of a video in one tile
    room_bytes: int = 0  # kept free when its own weights are loaded
    alone: bool = False  # all other models are unloaded
    on_cpu: bool = False

    def room_words(self) -> list[str]:
        """Return a short phrase about the room kept free of weights, in a list; or none."""
        if self.room_bytes >= weights.EVERYTHING:
            return [said("kept its own weights in RAM")]
        if not self.room_bytes:
            return []
        return [said("kept {kept_mib} free of weights", kept_mib=self.room_bytes / MIB)]


class Call(Generic[T]):
    """A call that can run out of memory. Calls with the same `key` need the same memory."""

    key: Hashable = None
    words = ""  # "decoding with AutoencoderKL"
    patchers: Sequence[Any] = ()  # the models that must stay loaded
    device: torch.device | None = None
    batch = 1
    size = ""  # of the picture, in pixels
    can_tile = False
    is_video = False

    def run(self, plan: Plan) -> T:
        raise NotImplementedError

    def reset(self) -> None:
        """Restore random state, options and hints, so that the next attempt is the same call."""

    def needs(self, plan: Plan) -> float:
        """Return the bytes that the call needs at least, as far as that is known."""
        return 0.0

    def lighter(self, plan: Plan, lack: Lack) -> tuple[Plan, int | None] | None:
        """Return a plan that keeps more room free of its own weights, and the bytes this frees.

        None if it has no weights there. The bytes are None if they are not known.
        """
        spared = weights.own_bytes(self.patchers, lack)
        room = weights.room_bytes(self.patchers, lack, plan.room_bytes > 0)
        if not spared or plan.room_bytes >= weights.EVERYTHING:
            return None
        part = room - (lack.room_bytes or 0)
        return replace(plan, room_bytes=room), min(spared, part)

    def smaller(self, plan: Plan, lack: Lack) -> Plan | None:
        """Return the plan with smaller parts; None if it cannot or must not be cut further."""
        return None

    def cut_words(self, plan: Plan) -> list[str]:
        """Return short phrases that say how the parts of `plan` are run."""
        return []

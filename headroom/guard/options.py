"""What the user allows OOM Guard to do."""

from dataclasses import dataclass
from typing import Literal

Prefer = Literal["same bits", "speed"]


@dataclass(frozen=True)
class GuardOptions:
    """The switches of the node; `max_attempts` counts the retries of one failing call.

    `prefer`: if several plans fit, take one that changes no bit of the result, or the fastest.
    """

    free_other_models: bool = True
    offload_weights: bool = True
    split_batch: bool = True
    tile_vae: bool = True
    max_attempts: int = 8
    prefer: Prefer = "same bits"

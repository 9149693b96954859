"""What the user allows OOM Guard to do."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GuardOptions:
    """The switches of the node; `max_attempts` counts the retries of one failing call."""

    free_other_models: bool = True
    offload_weights: bool = True
    split_batch: bool = True
    tile_vae: bool = True
    max_attempts: int = 8

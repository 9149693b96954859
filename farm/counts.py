"""How many prompts of a farm came to what."""

from dataclasses import dataclass


@dataclass
class Counts:
    """What a run of a farm has come to so far."""

    finished: int = 0
    finished_before: int = 0
    failed: int = 0
    rescued: int = 0
    moved: int = 0
    lost: int = 0

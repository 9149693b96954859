"""The recorder, as far as those ask it who read the records of runs."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from ..base.said import said
from .run import Run

NO_RECORD = said("no_record", (
    "No record of this prompt: it has not begun yet, or is older than the last runs that are kept."
))
Seen = TypeVar("Seen")


class Records(Protocol):
    """What the recorder keeps: the runs that it still knows."""

    def look(self, prompt_id: str, read: Callable[[Run], Seen]) -> Seen | None:
        """Return what `read` finds in a run; None where the run is not known."""

    def newest_ids(self) -> list[str]:
        """Return the ids of the runs, newest first."""

"""A server in a farm and what it does: it starts, waits for work, works, is away, is gone."""

from dataclasses import dataclass
from typing import Literal

from .placement import Server, Waiting
from .words import Facts

AGAIN_SECONDS = (2.0, 60.0)  # between attempts to have a server back: at first, at most
STARTS = 5  # in a row that fail before a server that was there once is given up


@dataclass
class Seat:
    """A server and what it does; `waiting` is the prompt that it runs."""

    server: Server
    state: Literal["starting", "idle", "busy", "away", "gone"] = "away"
    waiting: Waiting | None = None
    was_there: bool = False
    failed_starts: int = 0
    again_at: float = 0.0

    def comes(self, facts: Facts) -> None:
        """It has started, and has nothing loaded."""
        self.state, self.was_there, self.failed_starts = "idle", True, 0
        self.server.facts, self.server.models = facts, frozenset()

    def goes(self, now: float) -> None:
        """It is to be had again from `again_at` on, later and later; after STARTS not at all."""
        self.state = "gone" if self.failed_starts >= STARTS else "away"
        first, most = AGAIN_SECONDS
        failed = self.failed_starts
        self.again_at = now + (min(most, first * 2 ** (failed - 1)) if failed else 0.0)

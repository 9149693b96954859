"""Whether the running prompt comes on: a node begins or ends, or its progress bar moves."""

import time
from typing import Any

from ..host.types import NodeLabel
from .run import Run


class Progress:
    """When the prompt last came on: `at`, by `time.perf_counter()`."""

    def __init__(self) -> None:
        self.at = 0.0

    def moves(self, *_: Any) -> None:
        """Something has happened, a step of a progress bar for instance."""
        self.at = time.perf_counter()

    def stands(self, run: Run) -> tuple[float, NodeLabel | None]:
        """Return for how many seconds a run has not come on, and in which node."""
        opened = [(record.opened.at, record.info) for record in run.nodes.records.values()
                  if record.opened is not None]
        last = max(opened, key=lambda pair: pair[0])[1] if opened else None
        return time.perf_counter() - self.at, last

"""Whether the running prompt makes progress: a node begins or ends, or its progress bar moves."""

import math
import time
from typing import Any

from ..host.types import NodeLabel
from .run import Drawn, Run


class Progress:
    """When the prompt last made progress: `at`, by `time.perf_counter()`."""

    def __init__(self) -> None:
        self.at = 0.0
        self._drawn: tuple[str, dict[str, Drawn]] = "", {}

    def moves(self, *told: Any) -> None:
        """Something has happened, for instance a step of a progress bar.

        For such a step ComfyUI passes node, value, maximum, state, prompt and preview: its format,
        the picture, and the size in which browsers show it.
        """
        self.at = time.perf_counter()
        preview = told[5] if len(told) > 5 else None
        picture = preview[1] if isinstance(preview, tuple) and len(preview) > 1 else None
        size = getattr(picture, "size", None)
        if isinstance(size, tuple) and len(size) == 2:
            node_id, prompt_id = str(told[0]), str(told[4])
            drawn = self.drawn(prompt_id)
            drawn[node_id] = max(size, drawn.get(node_id, size), key=math.prod)
            self._drawn = prompt_id, drawn

    def drawn(self, prompt_id: str) -> dict[str, Drawn]:
        """Return which nodes of the newest prompt drew previews, with the largest of each."""
        return self._drawn[1] if self._drawn[0] == prompt_id else {}

    def stands(self, run: Run) -> tuple[float, NodeLabel | None]:
        """Return since how many seconds a run has made no progress, and in which node."""
        opened = [(record.opened.at, record.info) for record in run.nodes.records.values()
                  if record.opened is not None]
        last = max(opened, key=lambda pair: pair[0])[1] if opened else None
        return time.perf_counter() - self.at, last

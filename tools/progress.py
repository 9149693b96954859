"""A progress bar for one prompt or several, drawn in the terminal from the server's events.

Not tqdm's, as the farm's is: `dev.py` runs with nothing but Python.
"""

import sys
from collections.abc import Mapping
from typing import Any, TextIO

BAR_WIDTH = 24
LINE_WIDTH = 78


class ProgressBar:
    """Follows the events of prompts; on a terminal one line that redraws, else a line a node.

    `total` nodes are in all prompts together; without it there is one prompt, with `titles`.
    """

    def __init__(
        self, titles: Mapping[str, str], stream: TextIO | None = None, total: int | None = None
    ) -> None:
        self._titles = titles
        self._total = len(titles) if total is None else total
        self._before = 0  # nodes of the prompts that are over
        self._label = ""
        self._stream = stream or sys.stdout
        self._redraws = self._stream.isatty()
        self._begun: list[str] = []
        self._cached: set[str] = set()
        self._step = ""

    def go_on_with(self, titles: Mapping[str, str], label: str) -> None:
        """The next prompt begins; `label` stands before the names of its nodes."""
        self._titles, self._label = titles, f"{label} "
        self._begun, self._cached, self._step = [], set(), ""

    def leave(self) -> None:
        """The prompt is over, however it ended."""
        self._before += len(self._titles)
        self._titles = {}

    def pass_over(self, titles: Mapping[str, str]) -> None:
        """A prompt need not run."""
        self.go_on_with(titles, "")
        self.handle({"type": "execution_success"})
        self.leave()

    def handle(self, event: Mapping[str, Any]) -> None:
        """Take one event of the websocket, of any type."""
        data = event.get("data") or {}
        kind = event.get("type")
        if kind == "execution_cached":
            self._cached.update(str(node) for node in data.get("nodes", []))
        elif kind == "executing" and data.get("node") is not None:
            self._begin(str(data["node"]))
        elif kind == "progress" and data.get("max", 0) > 1:
            self._step = f" step {data['value']}/{data['max']}"
            self._draw()
        elif kind == "execution_success" and self._before + len(self._titles) >= self._total:
            self._finish()

    def line(self) -> str:
        """The bar as it stands: nodes done, the running one, and its step."""
        total = max(1, self._total)
        here = min(len(self._titles), len(self._cached) + max(0, len(self._begun) - 1))
        done = min(total, self._before + here)
        filled = BAR_WIDTH * done // total
        title = self._titles.get(self._begun[-1], self._begun[-1]) if self._begun else ""
        bar = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {done}/{total}"
        return f"{bar} {self._label}{title}{self._step}"

    def _begin(self, node: str) -> None:
        if node in self._begun:
            return
        self._begun.append(node)
        self._step = ""
        self._draw()
        if not self._redraws:
            print(self.line(), file=self._stream, flush=True)

    def _finish(self) -> None:
        bar = f"[{'#' * BAR_WIDTH}] {self._total}/{self._total} done"
        if self._redraws:
            self._stream.write("\r" + bar.ljust(LINE_WIDTH) + "\n")
            self._stream.flush()
        else:
            print(bar, file=self._stream, flush=True)

    def _draw(self) -> None:
        if self._redraws:
            self._stream.write("\r" + self.line()[:LINE_WIDTH].ljust(LINE_WIDTH))
            self._stream.flush()

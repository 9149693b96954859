"""A progress bar for one prompt, drawn in the terminal from the server's events."""

import sys
from collections.abc import Mapping
from typing import Any, TextIO

BAR_WIDTH = 24
LINE_WIDTH = 78


class ProgressBar:
    """Follows one prompt's events; on a terminal one line that redraws, else a line a node."""

    def __init__(self, titles: Mapping[str, str], stream: TextIO | None = None) -> None:
        self._titles = titles
        self._stream = stream or sys.stdout
        self._redraws = self._stream.isatty()
        self._begun: list[str] = []
        self._cached: set[str] = set()
        self._step = ""

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
        elif kind == "execution_success":
            self._finish()

    def line(self) -> str:
        """The bar as it stands: nodes done, the running one, and its step."""
        total = max(1, len(self._titles))
        done = min(total, len(self._cached) + max(0, len(self._begun) - 1))
        filled = BAR_WIDTH * done // total
        title = self._titles.get(self._begun[-1], self._begun[-1]) if self._begun else ""
        return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {done}/{total} {title}{self._step}"

    def _begin(self, node: str) -> None:
        if node in self._begun:
            return
        self._begun.append(node)
        self._step = ""
        self._draw()
        if not self._redraws:
            print(self.line(), file=self._stream, flush=True)

    def _finish(self) -> None:
        total = len(self._titles)
        bar = f"[{'#' * BAR_WIDTH}] {total}/{total} done"
        if self._redraws:
            self._stream.write("\r" + bar.ljust(LINE_WIDTH) + "\n")
            self._stream.flush()
        else:
            print(bar, file=self._stream, flush=True)

    def _draw(self) -> None:
        if self._redraws:
            self._stream.write("\r" + self.line()[:LINE_WIDTH].ljust(LINE_WIDTH))
            self._stream.flush()

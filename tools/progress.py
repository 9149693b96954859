"""A progress bar for one prompt or several, drawn in the terminal from the server's events."""

import sys
from collections.abc import Mapping
from typing import Any, TextIO

from tqdm import tqdm

LOOKS = {"bar_format": "[{bar:24}] {n_fmt}/{total_fmt} {desc}", "ascii": ".#"}


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
        self._bar: tqdm | None = None  # from the first thing that is drawn
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
            self._draw(self._done(), self._words())
        elif kind == "execution_success" and self._before + len(self._titles) >= self._total:
            self._finish()

    def line(self) -> str:
        """The bar as it stands: nodes done, the running one, and its step."""
        return tqdm.format_meter(self._done(), self._total, 0, prefix=self._words(), **LOOKS)

    def _done(self) -> int:
        here = min(len(self._titles), len(self._cached) + max(0, len(self._begun) - 1))
        return min(self._total, self._before + here)

    def _words(self) -> str:
        title = self._titles.get(self._begun[-1], self._begun[-1]) if self._begun else ""
        return f"{self._label}{title}{self._step}"

    def _begin(self, node: str) -> None:
        if node in self._begun:
            return
        self._begun.append(node)
        self._step = ""
        self._draw(self._done(), self._words())
        if not self._redraws:
            print(self.line(), file=self._stream, flush=True)

    def _finish(self) -> None:
        self._draw(self._total, "done")
        if self._bar is not None:
            self._bar.close()
        else:
            print(tqdm.format_meter(self._total, self._total, 0, prefix="done", **LOOKS),
                  file=self._stream, flush=True)

    def _draw(self, done: int, words: str) -> None:
        if not self._redraws:
            return
        if self._bar is None:
            self._bar = tqdm(total=self._total, file=self._stream, dynamic_ncols=True, **LOOKS)
        self._bar.n = done
        self._bar.set_description_str(words)

"""Has a model file changed since this process may have loaded it?

ComfyUI keeps a loaded model when its file is replaced. What such a model computes belongs to the
old file, so nothing of it may be kept under the name of the new one.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ..base.file_identity import HASHES, PROCESS_START_NS, State, changed_ns, state_of
from ..base.graph import MODEL_SUFFIXES, Graph, constants, strings
from ..base.node_types import Registry
from ..host.adapter import host_registry

# Of one prompt: each takes up to a millisecond of the server's own thread. What is not looked at
# counts as changed where it is newer than this process.
MAX_NAMES = 500


class SeenFiles:
    """The state of each model file when a prompt that names it was first queued."""

    def __init__(self, start_ns: int = PROCESS_START_NS) -> None:
        self._start_ns = start_ns
        self._first: dict[Path, State] = {}

    def note_prompt(self, prompt: Mapping[str, Any], registry: Registry | None = None) -> None:
        """Remember the files that a queued prompt names, before anything loads them."""
        graph = Graph(prompt, registry or host_registry())
        for name in islice(_model_names(graph), MAX_NAMES):
            self.note(graph.files_named(name))

    def note(self, paths: Iterable[Path]) -> None:
        """Remember the state of files not seen before."""
        for path in paths:
            if path not in self._first and path.is_file():
                self._first[path] = state_of(path)

    def changed(self, paths: Iterable[Path]) -> Path | None:
        """Return the first file that may differ from what this process has loaded, else None.

        A file that no queued prompt named counts as changed if it is newer than this process.
        """
        for path in paths:
            state = state_of(path)
            first = self._first.get(path)
            if first is None and changed_ns(state) > self._start_ns:
                return path
            # A clock that is put back must not make a later change look older than the process.
            if self._first.setdefault(path, state) != state:
                return path
        return None


def _model_names(graph: Graph) -> Iterator[str]:
    """Yield each name of a model file in the widgets of a prompt once."""
    names = (name for node in graph.nodes.values() for name in strings(constants(node)))
    return iter(dict.fromkeys(name for name in names if name.lower().endswith(MODEL_SUFFIXES)))


SEEN = SeenFiles()


def watch() -> None:
    """Look at every prompt that ComfyUI queues from now on; call once, where ComfyUI runs."""
    from ..host import files as host_files
    from ..host import graph as host_graph

    HASHES.remember_in(host_files.own_folder() / "file_hashes.json")
    host_graph.on_prompt(SEEN.note_prompt)

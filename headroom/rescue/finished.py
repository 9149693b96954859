"""Finished outputs of a prompt that ran out of memory, on disk until its rerun has ended.

If the server is killed during the rerun, ComfyUI's node cache is lost. The next server queues the
prompt again and finds the outputs here. A file is in safetensors format, and is valid for one
prompt with unchanged model files. An output that does not fit the format, for instance a model, is
not written; the outputs that it was made from are.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..base.device import MIB
from ..base.file_identity import identities_of
from ..base.graph import Graph, Prompt
from ..base.loops import begins_loop
from ..base.node_types import Registry
from ..base.ram import ram_room_bytes
from ..base.stored_value import Damaged, Unstorable, from_bytes, to_bytes
from ..base.tensors import tensors_within
from ..base.untrusted_file import read_untrusted, write_whole
from ..host.features import comfyui_version
from .setup import RerunSetup

log = logging.getLogger("headroom")

LIMIT_VARIABLE = "HEADROOM_RERUN_DISK_MIB"
COPIES = 3  # of a value: so many are in RAM while it is written or read
HEADER_BYTES = 100 * MIB  # more than a file's header ever has

Found = tuple[list[Any], dict[str, Any] | None]  # a node's outputs and `ui` data
Value = tuple[str, list[Any], "dict[str, Any] | None"]  # ComfyUI's key, and the same


@dataclass(frozen=True)
class Finished:
    """Keeps outputs on disk for each prompt with a folder; who provides the folder deletes it."""

    host: Any  # headroom/host/finished.py
    registry: Registry
    folder_of: Callable[[str], Path | None]
    limit_bytes: int  # for each prompt; and half of the disk at most

    def keep(self, prompt_id: str, setup: RerunSetup, failed_id: str) -> None:
        """Write what the rerun of this id takes from the cache; a failure is one warning.

        `failed_id`: the prompt that it repeats. It costs the bytes of the outputs on disk, and RAM
        of three times the largest output while it writes.
        """
        folder = self.folder_of(prompt_id)
        if folder is None or not setup.cached:
            return
        prompt = setup.guarded.prompt
        graph = Graph(prompt, self.registry)
        # A loop's turn starts with numbers, and with what is on disk from the turn before.
        turns = [one for one in setup.runs.turns if not begins_loop(graph, one)]
        try:
            # The other half of the disk is for what ComfyUI saves.
            room = shutil.disk_usage(folder.parents[1]).free // 2
            _Writing(folder, min(self.limit_bytes, room), self._mark(prompt)).write(
                graph, setup, self.host.values_of(prompt_id, prompt),
                self.host.turn_values(failed_id, turns))
        except Exception:  # of any pack: it must not cost the rerun
            log.warning("[Headroom] finished outputs are not kept on disk for the rerun",
                        exc_info=True)

    def prompt_begins(self, prompt_id: str, prompt: Prompt) -> None:
        """A prompt begins: now ComfyUI can find what is on disk for it, and nothing else."""
        folder, get = self.folder_of(prompt_id), None
        if folder is not None and folder.is_dir():
            try:
                get = partial(_read, folder, self._mark(prompt), self.limit_bytes)
            except OSError as error:
                log.warning("[Headroom] finished outputs are not read from disk: %s", error)
        self.host.serve(get)

    def _mark(self, prompt: Prompt) -> str:
        """Return what else changes outputs, beside ComfyUI's own key. Raises OSError."""
        files = identities_of(Graph(prompt, self.registry).files())
        return json.dumps([comfyui_version(), torch.__version__, files])


@dataclass
class _Writing:
    """One pass over a prompt."""

    folder: Path
    left_bytes: int
    mark: str
    count: int = 0

    def write(
        self, graph: Graph, setup: RerunSetup, value_of: Callable[[str], Value | None],
        turns: Iterable[Value],
    ) -> None:
        """Write the cached nodes next to those that run; if one cannot be written, those above it.

        Of loops, write everything: ComfyUI starts them again with their first turn.
        """
        done: set[str] = set()
        pending = list(setup.outputs)
        before_bytes = self.left_bytes
        while pending:
            node_id = pending.pop()
            if node_id in done or node_id not in graph.nodes:
                continue
            done.add(node_id)
            if node_id not in setup.cached or not self._is_written(value_of(node_id)):
                pending += [wire.giver for wire in graph.wires(node_id)]
        for value in turns:
            self._is_written(value)
        if self.count:
            log.info("[Headroom] %d finished outputs (%d MiB) are on disk until the rerun has "
                     "ended", self.count, (before_bytes - self.left_bytes) // MIB)

    def _is_written(self, value: Value | None) -> bool:
        if value is None:
            return False
        key, outputs, ui = value
        # Without a tensor nothing took long, and a text may name a file that no longer exists.
        nbytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors_within(outputs))
        if not 0 < nbytes <= min(self.left_bytes, ram_room_bytes() // COPIES):
            return False
        path, key = _place(self.folder, self.mark, key)
        try:
            data = to_bytes({"outputs": list(outputs), "ui": ui}, key)
        except (Unstorable, MemoryError):
            return False
        if len(data) > self.left_bytes:
            return False
        write_whole(path, data)
        self.left_bytes -= len(data)
        self.count += 1
        return True


def _place(folder: Path, mark: str, key: str) -> tuple[Path, str]:
    """Return the file for ComfyUI's key of a node, and the key that is in it."""
    name = hashlib.sha256(json.dumps([mark, key]).encode()).hexdigest()
    return folder / f"{name}.safetensors", name


def _read(folder: Path, mark: str, limit_bytes: int, key: str) -> Found | None:
    """Return what is kept under ComfyUI's key of a node; None if nothing valid is."""
    path, key = _place(folder, mark, key)
    try:
        if path.stat().st_size > ram_room_bytes() // COPIES:
            return None
        value = from_bytes(read_untrusted(path, limit_bytes + HEADER_BYTES), key)
        outputs, ui = value["outputs"], value["ui"]
        is_sound = (isinstance(outputs, list) and all(isinstance(one, list) for one in outputs)
                    and isinstance(ui, (dict, type(None))))
    except FileNotFoundError:
        return None
    except (OSError, Damaged, KeyError, TypeError, MemoryError) as error:
        log.warning("[Headroom] %s is not usable, the node runs again: %s", path.name, error)
        return None
    return (outputs, ui) if is_sound else None

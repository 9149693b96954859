"""Move models that nothing uses to disk until enough RAM is free."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.device import is_in_ram, shares_ram
from ..base.graph import Graph
from ..base.prompt_node import constants, is_node, strings
from ..base.ram import ram_room_bytes
from ..host.adapter import current_host, host_registry
from ..models.unload import loaded_bytes
from .mapping import DiskRefused, blocks_of
from .offload import is_disk_in_ram, offload

# Whether the queue needs a patcher; None: not known.
IsUsed = Callable[[Any], bool | None]


@dataclass(frozen=True)
class Spared:
    """How many models went to disk, how many bytes of RAM that freed, and an error, if any."""

    count: int
    moved_bytes: int
    refusal: str


def spare_ram(wanted_bytes: int, is_used: IsUsed) -> Spared:
    """Move models to disk, the largest in RAM first, until `wanted_bytes` of RAM are free.

    It takes only models that ComfyUI manages, that have nothing on a GPU with its own memory, and
    that nobody uses (`is_used` of their patchers). Models for which this is not known (None) come
    last; among those, the one loaded longest ago comes first. Models that ComfyUI maps itself
    (dynamic VRAM) stay. It costs writing what is not yet on disk with the same bytes, and a walk
    over all objects of the process.
    """
    count, moved, refusal = 0, 0, ""
    if is_disk_in_ram():  # there would be two copies in RAM for a moment, and then still one
        return Spared(0, 0, "no idle model goes to disk, because ComfyUI's temp folder is in RAM "
                            "(tmpfs): --temp-directory names another")
    for patcher, nbytes in _idle_models(is_used):
        if ram_room_bytes() >= wanted_bytes:
            break
        try:
            offload(patcher, "this model", "disk")
        except DiskRefused as error:
            return Spared(count, moved, str(error))
        except ValueError as error:
            refusal = str(error)
            continue
        count, moved = count + 1, moved + nbytes
    return Spared(count, moved, "" if count else refusal)


def _idle_models(is_used: IsUsed) -> list[tuple[Any, int]]:
    """Return a patcher of each set of weights that may be moved, with its bytes in RAM."""
    host = current_host()
    if host is None:
        return []
    on_gpu = {id(entry.model.model) for entry in host.loaded_entries()
              if entry.model is not None and loaded_bytes(entry) and not shares_ram(entry.device)}
    patchers = host.living_patchers()
    use = [(patcher, True if host.is_dynamic(patcher) else is_used(patcher))
           for patcher in patchers]
    stay = on_gpu | {id(patcher.model) for patcher, used in use if used}
    unknown = {id(patcher.model) for patcher, used in use if used is None}
    idle = {id(patcher.model): patcher for patcher in patchers if id(patcher.model) not in stay}
    ages = _ages(host.loaded_entries())

    def order(one: tuple[Any, int]) -> tuple[bool, float, int]:
        key = id(one[0].model)
        return key in unknown, -ages.get(key, math.inf) if key in unknown else 0.0, -one[1]

    sized = [(patcher, _ram_bytes(patcher)) for patcher in idle.values()]
    return sorted((one for one in sized if one[1]), key=order)


def _ages(entries: Sequence[Any]) -> dict[int, int]:
    """Return the position of each set of weights in ComfyUI's list; the last loaded is at 0."""
    places = [(id(entry.model.model), place) for place, entry in enumerate(entries)
              if entry.model is not None]
    return dict(reversed(places))


def _ram_bytes(patcher: Any) -> int:
    return sum(block.nbytes for block in blocks_of([patcher.model])
               if is_in_ram(block.tensors[0].device) and not block.is_mapped)


def used_by(prompts: Sequence[Mapping[str, Any]]) -> IsUsed:
    """Return whether a patcher's file is named by a prompt; None if its file is not known."""
    if not prompts:
        return lambda patcher: False
    graph = Graph({}, host_registry())
    # Each name once: it is searched in every models folder, and thousands of prompts may wait.
    names = {name for prompt in prompts for node in prompt.values() if is_node(node)
             for name in strings(constants(node))}
    named = {os.path.realpath(path) for name in names for path in graph.files_named(name)}

    def is_used(patcher: Any) -> bool | None:
        host = current_host()
        files = host.source_files(patcher) if host is not None else []
        return any(os.path.realpath(path) in named for path in files) if files else None

    return is_used

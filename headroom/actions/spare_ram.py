"""Let models that nothing uses live on disk until there is enough RAM."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..base.ram import room_bytes
from ..host.adapter import current_host
from ..models.unload import loaded_bytes
from .blocks import blocks_of
from .mapping import DiskRefused
from .offload import offload


@dataclass(frozen=True)
class Spared:
    """How many models went to disk, with how many bytes of RAM; why it ended where it failed."""

    count: int
    moved_bytes: int
    refusal: str


def spare_ram(wanted_bytes: int, is_used: Callable[[Any], bool]) -> Spared:
    """Map models from disk, those that hold the most RAM first, until `wanted_bytes` are free.

    Only models that ComfyUI manages, of which nothing is on a GPU and for none of whose patchers
    `is_used`; those that it maps by itself (dynamic VRAM) stay. Costs writing what is not on disk
    in the same bytes, and a walk over all objects of the process.
    """
    count, moved, refusal = 0, 0, ""
    for patcher, nbytes in _idle_models(is_used):
        if room_bytes() >= wanted_bytes:
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


def _idle_models(is_used: Callable[[Any], bool]) -> list[tuple[Any, int]]:
    """Return a patcher of each idle set of weights with the bytes that it holds in RAM."""
    host = current_host()
    if host is None:
        return []
    on_gpu = {id(entry.model.model) for entry in host.loaded_entries()
              if entry.model is not None and loaded_bytes(entry)}
    patchers = host.living_patchers()
    used = {id(patcher.model) for patcher in patchers
            if is_used(patcher) or host.is_dynamic(patcher)}
    idle = {id(patcher.model): patcher for patcher in patchers
            if id(patcher.model) not in on_gpu | used}
    sized = [(patcher, _ram_bytes(patcher)) for patcher in idle.values()]
    return sorted((one for one in sized if one[1]), key=lambda one: -one[1])


def _ram_bytes(patcher: Any) -> int:
    blocks = blocks_of([patcher.model], "cpu")
    return sum(block.nbytes for block in blocks if not block.is_mapped)

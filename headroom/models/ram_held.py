"""Who holds this process's RAM, by storage: models, ComfyUI's cache, packs, others.

A storage counts once, for the first of these that has it. One that is mapped from a file counts
only for models, apart; as far as it is in RAM it is in `files_mib`. What only a closure, a frame or
a library holds has no name: its tensors are in `other_tensors_mib`, Python's small objects are in
`python_heap_mib`, and everything else is in `rest_mib`.
"""

import sys
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base import private_file
from ..base.cgroup import cgroup_memory
from ..base.device import MIB, in_mib
from ..base.living import living
from ..base.ram import python_heap_bytes, ram_pressure, swap_bytes
from ..base.tensors import module_tensors, storages
from ..host.adapter import current_host
from ..host.borrowed import borrowed
from ..host.features import lost
from ..measure.snapshot import Snapshot
from .foreign import things_in
from .loaded import class_name, file_name, name_of

LEAST = MIB  # less than this is not listed
NAMED = 20
COSTS_AT_MOST = 0.05
HOLDERS = (torch.nn.Module, torch.Tensor, np.ndarray, bytes, bytearray)
Part = dict[str, Any]
Ranges = list[tuple[int, int]]  # of addresses, in order


def ram_held(now: Snapshot) -> Part:
    """Return the parts of the RAM, in MiB. It walks a few times over all objects of the process, in
    C, and once over what packs hold, in Python: not for the event loop."""
    host = current_host()
    # A prompt may begin meanwhile, which drops models that the search meets.
    living = [] if host is None or lost("nodes") else host.living_patchers()
    with borrowed.looked_at(living) as patchers:
        return _parts(now, host, patchers)


def _parts(now: Snapshot, host: Any, patchers: list[Any]) -> Part:
    seen: set[int] = set()
    ranges = _file_ranges()
    models = _models(host, patchers, seen, ranges)
    cached = _cached(seen, ranges)
    packs = _packs(seen, ranges)
    others = sum(_sizes(living(torch.Tensor), seen, ranges))
    named = sum(one["mib"] for one in [*models, *cached, *packs]) + others / MIB
    files, heap = _resident_files(), python_heap_bytes()
    swap_used, swap_total = swap_bytes()
    group = cgroup_memory()
    return {
        "models": models, "cached": cached, "packs": packs, "other_tensors_mib": in_mib(others),
        "files_mib": in_mib(files),
        "python_heap_mib": in_mib(heap),
        "rest_mib": max(0.0, round(
            (now.rss_bytes - (files or 0) - (heap or 0)) / MIB - named, 3)),
        "swap_used_mib": in_mib(swap_used), "swap_total_mib": in_mib(swap_total),
        "limit_mib": None if group is None else in_mib(group.limit),
        "pressure_percent": ram_pressure(),
    }


class SeldomHeld:
    """Looks up who holds RAM, and spends at most COSTS_AT_MOST of the time on that."""

    def __init__(self) -> None:
        self._due = 0.0

    def now(self, now: Snapshot) -> Part | None:
        """Return the result of `ram_held`; None if it was looked up not long ago."""
        began = time.perf_counter()
        if began < self._due:
            return None
        found = ram_held(now)
        ended = time.perf_counter()
        self._due = ended + (ended - began) / COSTS_AT_MOST
        return found


def _models(
    host: Any, patchers: list[Any], seen: set[int], ranges: Ranges
) -> list[Part]:
    found: list[Part] = []
    for patcher, model in {id(model): (one, model) for one in patchers
                           for model in _modules_of(one)}.values():
        in_ram = mapped = pinned = 0
        names = getattr(patcher, "pinned", ())
        for name, tensor in module_tensors(model):
            for address, size in _storages(tensor):
                if address in seen:
                    continue
                seen.add(address)
                is_mapped = _is_mapped(address, ranges)
                mapped += size * is_mapped
                in_ram += size * (not is_mapped)
                pinned += size * (name in names)
        if in_ram + mapped >= LEAST:
            found.append({
                "id": name_of(model), "class": class_name(model),
                "file": file_name(host.source_files(patcher)), "mib": in_mib(in_ram),
                "mapped_mib": in_mib(mapped), "pinned_mib": in_mib(pinned)})
    return _largest(found)


def _modules_of(patcher: Any) -> list[Any]:
    """Return a patcher's model, and the copy that a dynamic one keeps for sampling with hooks."""
    return [patcher.model, *(getattr(patcher, "non_dynamic_delegate_model", None) or ())[:1]]


def _cached(seen: set[int], ranges: Ranges) -> list[Part]:
    if current_host() is None or lost("files"):
        return []
    from ..host.packs import cached_results

    sizes: dict[tuple[str | None, str | None], int] = {}
    for node_id, class_type, value in cached_results():
        held = sum(_sizes(things_in([value], (), (), HOLDERS), seen, ranges))
        sizes[node_id, class_type] = sizes.get((node_id, class_type), 0) + held
    return _largest([{"node_id": node_id, "class_type": kind, "mib": in_mib(size)}
                     for (node_id, kind), size in sizes.items() if size >= LEAST])


def _packs(seen: set[int], ranges: Ranges) -> list[Part]:
    """Return what packs hold: by a module's variable, or by the class of a node's object."""
    if current_host() is None or lost("files"):
        return []
    from ..host.packs import node_objects, pack_modules

    packs = pack_modules()
    names = {module.__name__: pack for pack, modules in packs.items() for module in modules}
    found: list[Part] = []
    looked_at: set[int] = set()  # objects that many modules share, a logger for instance

    def count(pack: str, holder: str, roots: Iterable[Any], own: set[str]) -> None:
        found_in = things_in(roots, own, names, HOLDERS, looked_at)
        held = sum(_sizes(found_in, seen, ranges))
        if held >= LEAST:
            found.append({"pack": pack, "holder": holder, "mib": in_mib(held)})

    for value in node_objects():
        if (pack := names.get(type(value).__module__)) is not None:
            count(pack, type(value).__name__, [value], set())
    for pack, modules in packs.items():
        for module in modules:
            for variable, value in list(vars(module).items()):
                if not variable.startswith("__"):
                    where = f"{module.__name__.rpartition('.')[2]}.{variable}"
                    count(pack, where, [value], {module.__name__})
    return _largest(found)


def _sizes(things: Iterable[Any], seen: set[int], ranges: Ranges) -> Iterator[int]:
    """Yield the bytes in RAM of each storage that is not in `seen`, and put it there."""
    for thing in things:
        for address, size in _storages(thing):
            if address not in seen:
                seen.add(address)
                yield size * (not _is_mapped(address, ranges))


def _storages(thing: Any) -> Iterator[tuple[int, int]]:
    """Yield address and bytes of what a value holds in RAM."""
    if isinstance(thing, torch.nn.Module):
        for _, tensor in module_tensors(thing):
            yield from _storages(tensor)
    elif isinstance(thing, torch.Tensor):
        for (device, address), size in storages([thing]):
            if device == "cpu":
                yield address, size
    elif isinstance(thing, np.ndarray):
        while isinstance(thing.base, np.ndarray):
            thing = thing.base
        yield thing.ctypes.data, thing.nbytes
    elif isinstance(thing, (bytes, bytearray)):
        yield id(thing), len(thing)


def _largest(parts: list[Part]) -> list[Part]:
    return sorted(parts, key=lambda one: -one["mib"])[:NAMED]


def _file_ranges(root: Path = Path("/")) -> Ranges:
    """Return where files are mapped into this process, in order; empty if not known."""
    try:
        lines = (root / "proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for words in (line.split(maxsplit=5) for line in lines):
        if len(words) == 6 and words[5].startswith("/") and not words[5].startswith("/dev/"):
            start, _, end = words[0].partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found


def _is_mapped(address: int, ranges: Ranges) -> bool:
    place = bisect_right(ranges, (address, sys.maxsize)) - 1
    return (place >= 0 and address < ranges[place][1]) or private_file.is_mapped(address)


def _resident_files(root: Path = Path("/")) -> int | None:
    """Return the bytes of mapped files that are in RAM now; the system may drop them."""
    try:
        lines = (root / "proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssFile:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None

"""Models on the GPU that ComfyUI does not manage, by the pack that holds them.

They are reported, and not changed. The search covers the globals and classes of a pack's modules,
the objects of its nodes, its patches of models, and results in the node cache. A model that only a
closure or a library holds is not found.
"""

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Literal

import torch

from ..base.device import MIB, in_mib, stays
from ..base.inputs import attribute
from ..base.patches import patches_in
from ..base.said import Said, said
from ..base.tensors import module_tensors, storages
from ..host.adapter import current_host
from ..host.borrowed import borrowed
from ..host.features import lost
from ..measure.snapshot import Snapshot, snapshot
from .unload import loaded_bytes

NOTABLE = 16 * MIB
NOTABLE_AFTER_RUN = 128 * MIB
MOST_LOOKED_AT = 100_000  # objects of one pack; takes some tenths of a second
DEEPEST = 6
NAMED = 3
_LEAVES = (str, bytes, int, float, complex, bool, type(None), torch.Tensor, torch.device,
           torch.dtype, PurePath, ModuleType, FunctionType, BuiltinFunctionType, MethodType,
           functools.partial, classmethod, staticmethod, property)
MODULE = (torch.nn.Module,)
Way = Literal["nowhere", "wanted", "class", "fields"]
# Not by methods of their own classes: `values()` of transformers' mappings imports all models.
_INSIDE: dict[type, Callable[[Any], Iterable[Any]]] = {
    dict: dict.values, list: list.__iter__, tuple: tuple.__iter__, set: set.__iter__,
    frozenset: frozenset.__iter__}
# These objects of ComfyUI lead to everybody's models and values.
_HOST = ("comfy", "comfy_api", "comfy_execution", "comfy_extras", "server", "execution", "nodes",
         "app", "folder_paths", "aiohttp", "asyncio")


@dataclass(frozen=True)
class Foreign:
    """What one pack holds; None: the pack is not known."""

    pack: str | None
    classes: tuple[str, ...]
    bytes: int

    def as_json(self) -> dict[str, Any]:
        return {"pack": self.pack, "classes": list(self.classes), "mib": in_mib(self.bytes)}

    def sentence(self) -> Said:
        """Return a sentence: who holds how much."""
        held_mib, classes = self.bytes / MIB, ", ".join(self.classes[:NAMED])
        if self.pack is None:
            return said("not managed by ComfyUI, and left alone: {held_mib} of {classes}",
                        held_mib=held_mib, classes=classes)
        return said(
            "not managed by ComfyUI, and left alone: {held_mib} held by {pack} ({classes})",
            held_mib=held_mib, pack=self.pack, classes=classes)


def foreign_models(now: Snapshot | None = None, least_bytes: int = NOTABLE) -> list[Foreign]:
    """Return who holds models on the GPU outside ComfyUI, the largest first.

    If torch has less than `least_bytes` beside managed models in memory as it is `now`, this takes
    microseconds. Else it searches all that packs hold: a tenth of a second, or half a second with
    60 packs. Do not call it between two nodes.
    """
    host = current_host()
    if host is None or lost("files") or _beside_models(host, now or snapshot()) < least_bytes:
        return []
    # The search meets them, and a prompt may begin meanwhile.
    with borrowed.looked_at(host.living_patchers()) as patchers:
        return _foreign(host, patchers)


def _foreign(host: Any, patchers: list[Any]) -> list[Foreign]:
    from ..host.packs import node_objects, pack_modules

    packs = pack_modules()
    names = {module.__name__: pack for pack, modules in packs.items() for module in modules}
    loaded = [entry.model.model for entry in host.loaded_entries() if entry.model is not None]
    seen = {key for module in (*loaded, *_kept(patchers)) for key, _ in _storages(module)}
    held: dict[str | None, tuple[list[str], int]] = {}

    def count(pack: str | None, module: torch.nn.Module) -> None:
        size = _bytes_of(module, seen)
        if size:
            classes, before = held.get(pack, ([], 0))
            held[pack] = [*classes, type(module).__name__], before + size

    for pack, modules in packs.items():
        own = {module.__name__ for module in modules}
        for found in things_in([vars(module) for module in modules], own, names, MODULE):
            count(pack, found)
    for value in [*node_objects(), *_patches(patchers)]:
        holder = names.get(type(value).__module__)
        for found in things_in([value], (), names, MODULE):
            count(holder or names.get(type(found).__module__), found)
    return sorted((Foreign(pack, tuple(dict.fromkeys(classes)), size)
                   for pack, (classes, size) in held.items()), key=lambda one: -one.bytes)


def _patches(patchers: list[Any]) -> list[Any]:
    """Return what packs have put into the networks of these models (IPAdapter), each once."""
    options = [getattr(patcher, "model_options", {}) for patcher in patchers]
    found = [one for each in options for one in patches_in(each.get("transformer_options", {}))]
    return list({id(one): one for one in found}.values())


def kept_models(now: Snapshot) -> list[Said]:
    """Return a sentence on the models that ComfyUI keeps on the GPU when it unloads them, in a
    list; empty if there are none."""
    host = current_host()
    if host is None or _beside_models(host, now) < NOTABLE:
        return []
    seen: set[tuple[str, int]] = set()
    with borrowed.looked_at(host.living_patchers()) as patchers:
        sizes = [(_bytes_of(module, seen), type(module).__name__) for module in _kept(patchers)]
    if not (total := sum(size for size, _ in sizes)):
        return []
    names = dict.fromkeys(name for size, name in sizes if size)
    return [said("kept on the GPU by ComfyUI (--highvram or --gpu-only): {held_mib} of {classes}",
                 held_mib=total / MIB, classes=", ".join(list(names)[:NAMED]))]


def _kept(patchers: list[Any]) -> list[torch.nn.Module]:
    """Return the models that stay on the GPU when ComfyUI unloads them, each once."""
    kept = {id(patcher.model): patcher.model for patcher in patchers if stays(patcher)}
    return list(kept.values())


def _beside_models(host: Any, now: Snapshot) -> int:
    """Return the bytes of torch's tensors that are in no managed model, at most."""
    if any(device.allocated_bytes is None for device in now.in_use):
        return sys.maxsize  # not known
    managed = sum(loaded_bytes(entry) for entry in host.loaded_entries()
                  if entry.model is not None and not host.is_dynamic(entry.model))
    return sum(device.allocated_bytes or 0 for device in now.in_use) - managed


def _bytes_of(module: torch.nn.Module, seen: set[tuple[str, int]]) -> int:
    """Return the bytes on devices of storages that are not in `seen`, and put them there."""
    new = {key: size for key, size in _storages(module) if key[0] != "cpu" and key not in seen}
    seen.update(new)
    return sum(new.values())


def _storages(module: torch.nn.Module) -> Iterator[tuple[tuple[str, int], int]]:
    return storages(tensor for _, tensor in module_tensors(module))


def things_in(
    roots: Iterable[Any], own: Collection[str], packs: Collection[str], wanted: tuple[type, ...],
    seen: set[int] | None = None,
) -> Iterator[Any]:
    """Yield the outermost objects of the classes `wanted` below `roots`.

    It searches classes of the modules `own`, and objects of all classes except ComfyUI's. `packs`:
    the modules of packs, whose names may be like those of ComfyUI's. Objects whose ids are in
    `seen` are skipped, and the ids of searched objects are added there.
    """
    seen = set() if seen is None else seen
    most = len(seen) + MOST_LOOKED_AT
    ways: dict[type, Way | Callable[[Any], Iterable[Any]]] = {}
    level = list(roots)
    for _ in range(DEEPEST):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            way = ways.get(kind) or ways.setdefault(kind, _way(kind, packs, wanted))
            if way == "nowhere" or id(item) in seen or len(seen) > most:
                continue
            seen.add(id(item))
            if way == "wanted":
                yield item
            elif callable(way):
                below += way(item)
            elif way == "class":
                below += vars(item).values() if item.__module__ in own else ()
            else:
                fields = attribute(item, "__dict__")
                below += dict.values(fields) if isinstance(fields, dict) else ()
        level = below


def _way(
    kind: type, packs: Collection[str], wanted: tuple[type, ...]
) -> Way | Callable[[Any], Iterable[Any]]:
    """Return which objects an object of this class refers to, or a function that returns them."""
    if issubclass(kind, wanted):
        return "wanted"
    if issubclass(kind, _LEAVES):
        return "nowhere"
    for base, inside in _INSIDE.items():
        if issubclass(kind, base):
            return inside
    if issubclass(kind, type):
        return "class"
    if callable(attribute(kind, "is_clone")):  # a pack may move a patcher's model itself
        return lambda patcher: [attribute(patcher, "model")]
    is_of_host = kind.__module__ not in packs and kind.__module__.split(".")[0] in _HOST
    return "nowhere" if is_of_host else "fields"

"""The host adapter to other packs: their Python modules, and what their nodes keep."""

import sys
from collections.abc import Iterator, Mapping
from os.path import sep
from types import FrameType, ModuleType
from typing import Any

import execution
import folder_paths

from ..base.living import living
from .node_types import core_nodes

OWN = __name__.rsplit(".", 3)[0]  # ComfyUI's name of the pack with this file


def pack_modules() -> dict[str, list[ModuleType]]:
    """Return the imported modules of every other pack by its name, which is that of its folder."""
    roots = [str(root).rstrip(sep) + sep for root in folder_paths.get_folder_paths("custom_nodes")]
    found: dict[str, list[ModuleType]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name == OWN or name.startswith(f"{OWN}."):
            continue
        for root in roots:
            if file.startswith(root):
                pack = file[len(root):].split(sep)[0].removesuffix(".py")
                found.setdefault(pack, []).append(module)
    return found


def pack_of(class_type: str) -> str | None:
    """Return the pack of a node class; None for ComfyUI's own classes and unknown ones."""
    module = getattr(core_nodes.NODE_CLASS_MAPPINGS.get(class_type), "__module__", None)
    return next((pack for pack, modules in pack_modules().items()
                 if any(one.__name__ == module for one in modules)), None)


def node_objects() -> list[Any]:
    """Return what ComfyUI keeps for nodes: their objects first, then their results.

    It walks once over all objects of the process, in C.
    """
    return [value for which in ("objects", "outputs") for caches in cache_sets()
            for _, _, value in _kept(getattr(caches, which, None))]


def cached_results() -> list[tuple[str | None, str | None, Any]]:
    """Return what ComfyUI's cache has: node, class, and results.

    Node and class are None for results of earlier prompts, whose nodes the cache no longer knows.
    It walks once over all objects of the process, in C.
    """
    return [found for caches in cache_sets() for found in _kept(getattr(caches, "outputs", None))]


def cache_sets() -> list[Any]:
    """Return ComfyUI's caches, those of the server's executor first.

    That is a local variable of the function that runs prompts, whose thread never leaves it. The
    garbage collector does not list caches that existed when the server began to serve, because it
    was told to skip all older objects (`settle` in base/living.py).
    """
    kind = getattr(execution, "CacheSet", None)
    if kind is None:
        return []
    found: list[Any] = []
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None:
            if at.f_code.co_name == "prompt_worker":
                held = [getattr(value, "caches", None) for value in list(at.f_locals.values())]
                found += [caches for caches in held if isinstance(caches, kind)]
            at = at.f_back
    return list({id(one): one for one in [*found, *living(kind)]}.values())


def _kept(cache: Any) -> Iterator[tuple[str | None, str | None, Any]]:
    """Yield what a cache has, with that of its sub-caches for nodes that other nodes created."""
    own, keys = getattr(cache, "cache", None), getattr(cache, "cache_key_set", None)
    prompt, nodes = getattr(cache, "dynprompt", None), {}
    if keys is not None and prompt is not None:
        for node_id in filter(prompt.has_node, keys.all_node_ids()):
            class_type = prompt.get_node(node_id)["class_type"]
            nodes[keys.get_data_key(node_id)] = node_id, class_type
    for key, value in list(own.items()) if isinstance(own, Mapping) else ():
        yield *nodes.get(key, (None, None)), value
    below = getattr(cache, "subcaches", None)
    for inner in list(below.values()) if isinstance(below, Mapping) else ():
        yield from _kept(inner)

"""What ComfyUI's node cache has now: which nodes of a prompt would not run again.

What it has is looked up as ComfyUI does, by its own keys, which contain the present change mark of
each node (IS_CHANGED, fingerprint_inputs).
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import execution
from comfy_execution.graph import DynamicPrompt
from comfy_execution.progress import get_progress_state
from server import PromptServer

from .packs import cache_sets
from .types import Cached, asked_about

log = logging.getLogger("headroom")

Entries = dict[str, tuple[Any, Any]]  # by node: its key, and what is cached under it
NODE = "current_item"  # its name in ComfyUI's function for one node


def node_of(error: BaseException) -> str | None:
    """Return the id of the node whose error ComfyUI's executor handles; None if not found.

    For a node in a loop ComfyUI's history names the loop's begin node instead.
    """
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals is vars(execution) and NODE in frame.f_code.co_varnames:
            found = frame.f_locals.get(NODE)
            return found if isinstance(found, str) else None
        trace = trace.tb_next
    return None


def cached_now(prompt_id: str, prompt: Mapping[str, Any]) -> Cached | None:
    """Return what the cache has of `prompt`; None if that cannot be found out.

    It costs as much as ComfyUI needs to look up a prompt: some nodes read files for change marks.
    """
    sets = cache_sets()
    if not sets:
        return None
    try:
        nodes, entries = _looked_up(sets, prompt_id, prompt)
    except Exception:
        log.exception("[Headroom] ComfyUI's node cache cannot be read")
        return None
    return Cached(frozenset(entries), _marks(nodes))


def entries_of(prompt_id: str, prompt: Mapping[str, Any]) -> Entries:
    """Return what is cached of `prompt`; as costly as `cached_now`."""
    return _looked_up(cache_sets(), prompt_id, prompt)[1]


def turns_of(prompt_id: str) -> list[tuple[str, Any, Any]]:
    """Return (node on the canvas, key, entry) of each cached node that another node expanded to.

    Only for the last prompt, and not with --cache-classic, where no provider is asked for them.
    """
    outputs, registry = _outputs(cache_sets()), get_progress_state()
    keys = getattr(outputs, "cache_key_set", None)
    if keys is None or registry.prompt_id != prompt_id:
        return []
    prompt, cache = registry.dynprompt, outputs.cache
    made = [one for one in keys.all_node_ids() if prompt.get_parent_node_id(one) is not None]
    return [(prompt.get_display_node_id(one), key, cache[key]) for one in made
            if (key := keys.get_data_key(one)) in cache]


def _looked_up(
    sets: list[Any], prompt_id: str, prompt: Mapping[str, Any]
) -> tuple[dict[str, Any], Entries]:
    """Return the prompt's nodes with change marks, and what is cached of them."""
    work = _look(sets, prompt_id, prompt)
    with ThreadPoolExecutor(1) as thread:  # this thread may run the event loop of a prompt
        return thread.submit(asyncio.run, work).result()


async def _look(
    sets: list[Any], prompt_id: str, prompt: Mapping[str, Any]
) -> tuple[dict[str, Any], Entries]:
    asked_about.set(prompt)
    nodes = {node_id: {key: value for key, value in node.items() if key != "is_changed"}
             for node_id, node in dict(prompt).items()}
    dynamic = DynamicPrompt(nodes)
    asked = execution.IsChangedCache(prompt_id, dynamic, None)
    for node_id in nodes:
        await asked.get(node_id)
    outputs = _outputs(sets)
    if not hasattr(outputs, "key_class"):  # emptied, or never filled
        return nodes, {}
    keys = outputs.key_class(dynamic, list(nodes), asked)
    await keys.add_keys(list(nodes))
    found = {node_id: keys.get_data_key(node_id) for node_id in nodes}
    return nodes, {node_id: (key, entry) for node_id, key in found.items()
                   if (entry := outputs.cache.get(key)) is not None}


def _outputs(sets: list[Any]) -> Any:
    """Return the cache of nodes' results; None if there is none, or if somebody has asked to empty
    it (POST /free does)."""
    is_asked = PromptServer.instance.prompt_queue.get_flags(reset=False).get("free_memory")
    return None if is_asked or not sets else sets[0].outputs


def shown_nodes(prompt_id: str, node_ids: Iterable[str]) -> dict[str, str]:
    """Return the node on the canvas for each of these, which a loop may have created from it.

    Only for the prompt that runs, or the last one.
    """
    registry = get_progress_state()
    if registry.prompt_id != prompt_id:
        return {}
    return {one: registry.dynprompt.get_display_node_id(one) for one in node_ids}


def change_marks(prompt_id: str) -> dict[str, Any]:
    """Return the change mark of each node that has one, as it was when this prompt began.

    ComfyUI stores it in the node itself when it makes the cache's keys. Only for the last prompt.
    """
    registry = get_progress_state()
    if registry.prompt_id != prompt_id:
        return {}
    return _marks(dict(registry.dynprompt.get_original_prompt()))


def _marks(nodes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: node["is_changed"] for name, node in nodes.items() if "is_changed" in node}

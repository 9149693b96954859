"""Finished outputs under ComfyUI's keys for cache providers, and a provider of our own.

With a provider registered, ComfyUI hashes each node with all nodes before it, three times (see
prompt_events.py). So ours is registered only while a prompt runs of which outputs are on disk. What
is written to disk is read from the node cache and not received by `on_store`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from comfy_execution import cache_provider

from .node_cache import entries_of, turns_of

Get = Callable[[str], "tuple[list[Any], dict[str, Any] | None] | None"]
Value = tuple[str, list[Any], "dict[str, Any] | None"]  # a node's key, outputs and `ui` data
ValueOf = Callable[[str], "Value | None"]

_registered: Any = None


def values_of(prompt_id: str, prompt: Mapping[str, Any]) -> ValueOf:
    """Return a function that returns the value of a node of `prompt`; None for an uncached node.

    It costs as much as ComfyUI needs to look the prompt up in its cache.
    """
    entries = entries_of(prompt_id, prompt)
    return lambda node_id: _value(*entries[node_id]) if node_id in entries else None


def turn_values(prompt_id: str, nodes: Collection[str]) -> Iterator[Value]:
    """Yield the values that turns of loops left in the cache, if these nodes show them."""
    for shown, key, entry in turns_of(prompt_id):
        # Under a key that is different each time, nothing can be found again.
        if shown in nodes and not cache_provider._contains_self_unequal(key):
            if (value := _value(key, entry)) is not None:
                yield value


def _value(key: Any, entry: Any) -> Value | None:
    name = cache_provider._serialize_cache_key(key)
    return None if name is None else (name, entry.outputs, entry.ui)


def serve(get: Get | None) -> None:
    """Answer ComfyUI's look-ups with `get` from now on; None: with no provider.

    Call it between prompts, or when one begins.
    """
    global _registered
    if _registered is not None:
        cache_provider.unregister_cache_provider(_registered)
        _registered = None
    if get is not None:
        _registered = _Provider(get)
        cache_provider.register_cache_provider(_registered)


class _Provider(cache_provider.CacheProvider):  # type: ignore[misc]
    """Returns what is on disk, and stores nothing."""

    def __init__(self, get: Get) -> None:
        self._get = get

    async def on_lookup(self, context: Any) -> Any:
        found = self._get(context.cache_key_hash)
        return None if found is None else cache_provider.CacheValue(outputs=found[0], ui=found[1])

    async def on_store(self, context: Any, value: Any) -> None:
        """Do nothing: outputs are read from the node cache."""

    def should_cache(self, context: Any, value: Any = None) -> bool:
        return value is None

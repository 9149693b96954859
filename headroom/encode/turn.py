"""One Encode to CPU node in one prompt, between ComfyUI's two calls.

ComfyUI first asks which lazy inputs the node needs, once for each item of a list. Then it runs the
node, again once for each item. What the first call reads from the disk cache is kept for the
second, because another server may remove the file in between. The encoder is released only after
the last item.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..base.inputs import expect_choice
from ..host.adapter import current_host
from .cache_key import EmbeddingLookup, look_up
from .encode import Encoded, encode_to_cpu

Cache = Literal["off", "disk"]


@dataclass
class Turn:
    """What is known about a node between the two calls."""

    lookup: EmbeddingLookup | None = None
    last_index: int = 0

    def reads(self, cache: Cache, graph: Any, node_id: str) -> EmbeddingLookup | None:
        """Return the lookup of the disk cache; None if it is off."""
        expect_choice("Encode to CPU", "cache", cache, Cache)
        if cache == "disk" and self.lookup is None:
            self.lookup = look_up(graph, node_id)
        return self.lookup if cache == "disk" else None


Place = tuple[str | None, str]  # prompt and node
_turns: dict[Place, Turn] = {}


def _turn_at(place: Place) -> Turn:
    """Return the turn of a node in the prompt that runs now; those of earlier prompts go."""
    for earlier in [one for one in _turns if one[0] != place[0]]:
        del _turns[earlier]
    return _turns.setdefault(place, Turn())


def wanted_inputs(graph: Any, clip: Any, prompts: Sequence[str], cache: Cache) -> list[str]:
    """Return ["clip"] while the encoder is needed and not there, else an empty list.

    `graph`: the API prompt or DynamicPrompt with the running node.
    """
    prompt_id, node_id, index = _place()
    turn = _turn_at((prompt_id, node_id))
    turn.last_index = max(turn.last_index, index)
    if clip is not None:
        return []
    lookup = turn.reads(cache, graph, node_id)
    return [] if lookup is not None and lookup.has_all(prompts) else ["clip"]


def run(
    graph: Any, clip: Any, prompts: Sequence[str], release_encoder: bool, cache: Cache
) -> Encoded:
    """Encode `prompts`, or take them from the cache; see encode.encode_to_cpu."""
    prompt_id, node_id, index = _place()
    turn = _turn_at((prompt_id, node_id))
    lookup = turn.reads(cache, graph, node_id)
    more_follow = index < turn.last_index
    if not more_follow:
        del _turns[prompt_id, node_id]
    return encode_to_cpu(clip, prompts, release_encoder, lookup, more_follow)


def _place() -> tuple[str | None, str, int]:
    """Return (prompt id, node id, index in the list) of the node that runs in this thread."""
    host = current_host()
    prompt_id, node_id, index = (None, None, 0) if host is None else host.executing_node()
    return prompt_id, node_id or "", index

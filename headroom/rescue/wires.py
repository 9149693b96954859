"""Which nodes of a prompt may get guards without ComfyUI having to compute finished ones again."""

from collections.abc import Collection

from ..base.prompt_graph import Prompt, ancestors, is_link


def unfinished_nodes(prompt: Prompt, failed: str, cached: Collection[str]) -> set[str]:
    """Return the nodes whose inputs may change: the failed one, and those that are not cached.

    What a cached node stands on keeps its inputs as well, or its cache key would change: a lazy
    switch, for example, has finished without the branch that it did not take.
    """
    kept = {node for node in cached if node in prompt}
    untouched = {above for node in kept for above in ancestors(prompt.__getitem__, node)}
    return (set(prompt) - untouched) | ({failed} & set(prompt))


def behind(prompt: Prompt, starts: Collection[str]) -> set[str]:
    """Return `starts` and every node that anything of theirs reaches."""
    takers: dict[str, list[str]] = {}
    for node_id, node in prompt.items():
        for value in node["inputs"].values():
            if is_link(value):
                takers.setdefault(value[0], []).append(node_id)
    found: set[str] = set()
    waiting = [node for node in starts if node in prompt]
    while waiting:
        node_id = waiting.pop()
        if node_id not in found:
            found.add(node_id)
            waiting += takers.get(node_id, [])
    return found

"""ComfyUI's own loops in a prompt: the nodes that begin one, that are in it, and that end it.

These are Start Loop and End Loop, and nodes that other packs declare as such. ComfyUI refuses a
prompt in which a node in a loop leads to an output past its end. For each turn it makes copies of
the nodes in the loop, under new ids.
"""

from collections.abc import Mapping

from .graph import Graph, Source

Loops = frozenset[str]  # by the nodes that begin them


def leaves_loop(graph: Graph, source: Source, taker: str) -> bool:
    """Return whether a wire between these would lead out of a loop past its end."""
    loops = loops_of(graph)
    return not output_loops(graph, loops, source[0]) <= loops[taker]


def loops_of(graph: Graph) -> dict[str, Loops]:
    """Return for each node the loops that it is in: none for a node that runs once."""
    loops: dict[str, Loops] = {}
    for node_id in graph.above(*graph.nodes):
        loops[node_id] = Loops().union(*(output_loops(graph, loops, wire.giver)
                                         for wire in graph.wires(node_id)))
    return loops


def output_loops(graph: Graph, loops: Mapping[str, Loops], node_id: str) -> Loops:
    """Return the loops that the outputs of a node are in."""
    own = loops.get(node_id, Loops())
    if begins_loop(graph, node_id):
        return own | {node_id}
    if _boundary(graph, node_id) == "end" and own:
        return own - {max(own, key=lambda start: len(loops[start]))}  # the innermost
    return own


def begins_loop(graph: Graph, node_id: str) -> bool:
    return _boundary(graph, node_id) == "start"


def _boundary(graph: Graph, node_id: str) -> str | None:
    found = graph.node_type(node_id)
    return None if found is None else found.loop_boundary


def keeps_iterations(graph: Graph, node_id: str) -> bool:
    """Return whether a loop above a node finds the results of its turns in ComfyUI's cache."""
    return any(begins_loop(graph, one)
               and graph.nodes[one]["inputs"].get("cache_iterations") is True
               for one in graph.above(node_id))


def nodes_that_change_turns(graph: Graph, node_id: str) -> list[str]:
    """Return the nodes whose change makes every turn but the first run again, for a node in a loop.

    Each turn depends on everything that reaches the loop's end in the turn before, whether or not a
    value is passed on. So a guard on any wire in a loop costs the cached turns, and no other wire
    costs fewer: only a prompt without an added node has the same cache keys.
    """
    ends = [one for one in graph.below(node_id) if _boundary(graph, one) == "end"]
    return graph.above(node_id, *ends)

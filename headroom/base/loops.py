"""Loops of ComfyUI's own in a prompt: what begins one, the nodes between, what ends it.

Start Loop and End Loop, and what other packs declare to be such. ComfyUI refuses a prompt in which
a node between the two leads to an output past the end, and makes copies of the nodes between for
each turn, under ids of their own.
"""

from collections.abc import Mapping

from .graph import Graph, Source

Loops = frozenset[str]  # by the nodes that begin them


def leaves_loop(graph: Graph, source: Source, taker: str) -> bool:
    """Return whether a wire between these would lead out of a loop past its end."""
    loops = loops_of(graph)
    return not output_loops(graph, loops, source[0]) <= loops[taker]


def loops_of(graph: Graph) -> dict[str, Loops]:
    """Return by node the loops that it lies in: none for one that runs once."""
    loops: dict[str, Loops] = {}
    for node_id in graph.above(*graph.nodes):
        loops[node_id] = Loops().union(*(output_loops(graph, loops, wire.giver)
                                         for wire in graph.wires(node_id)))
    return loops


def output_loops(graph: Graph, loops: Mapping[str, Loops], node_id: str) -> Loops:
    """Return the loops in which lies what a node gives."""
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
    """Return whether a loop above a node finds what its turns gave in ComfyUI's cache again."""
    return any(begins_loop(graph, one)
               and graph.nodes[one]["inputs"].get("cache_iterations") is True
               for one in graph.above(node_id))


def decides_on_turns(graph: Graph, node_id: str) -> list[str]:
    """Return the nodes of which a change makes all turns of a node in a loop but the first anew.

    Each turn stands on all that reaches the loop's end in the turn before, whether or not a value
    is carried on. So a guard on any wire in a loop costs its kept turns, and there is no wire on
    which it costs fewer: what runs without a node more has the same cache keys only.
    """
    ends = [one for one in graph.below(node_id) if _boundary(graph, one) == "end"]
    return graph.above(node_id, *ends)

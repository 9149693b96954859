"""Loops of ComfyUI's own in a prompt: Start Loop, the nodes between, End Loop.

ComfyUI refuses a prompt in which a node between the two leads to an output past the end, and makes
copies of the nodes between for each turn, under ids of their own.
"""

from collections.abc import Mapping

from .graph import Graph, Source

START, END = "StartLoop", "EndLoop"
_DEEPER = {START: 1, END: -1}  # the outputs of each lie so much deeper than its inputs


def leaves_loop(graph: Graph, source: Source, taker: str) -> bool:
    """Return whether a wire between these would lead out of a loop past its end."""
    depths = depths_of(graph)
    return output_depth(graph, depths, source[0]) > depths[taker]


def depths_of(graph: Graph) -> dict[str, int]:
    """Return by node in how many loops it lies: 0 for one that runs once, a Start Loop too."""
    depths: dict[str, int] = {}
    for node_id in graph.above(*graph.nodes):
        depths[node_id] = max((output_depth(graph, depths, wire.giver)
                               for wire in graph.wires(node_id)), default=0)
    return depths


def output_depth(graph: Graph, depths: Mapping[str, int], node_id: str) -> int:
    """Return in how many loops lies what a node gives."""
    return depths.get(node_id, 0) + _deeper(graph, node_id)


def _deeper(graph: Graph, node_id: str) -> int:
    return _DEEPER.get(graph.nodes[node_id]["class_type"], 0)


def keeps_iterations(graph: Graph, node_id: str) -> bool:
    """Return whether a loop above a node finds what its turns gave in ComfyUI's cache again."""
    nodes = [graph.nodes[one] for one in graph.above(node_id)]
    return any(node["class_type"] == START and node["inputs"].get("cache_iterations") is True
               for node in nodes)


def decides_on_turns(graph: Graph, node_id: str) -> list[str]:
    """Return the nodes of which a change makes all turns of a node in a loop but the first anew.

    Each turn stands on all that reaches the loop's end in the turn before, whether or not a value
    is carried on. So a guard on any wire in a loop costs its kept turns, and there is no wire on
    which it costs fewer: what runs without a node more has the same cache keys only.
    """
    ends = [one for one in graph.below(node_id) if graph.nodes[one]["class_type"] == END]
    return graph.above(node_id, *ends)

"""Loops of ComfyUI's own in a prompt: Start Loop, the nodes between, End Loop.

ComfyUI refuses a prompt in which a node between the two leads to an output past the end, and makes
copies of the nodes between for each turn, under ids of their own.
"""

from .graph import Graph, Source

START, END = "StartLoop", "EndLoop"
_DEEPER = {START: 1, END: -1}  # the outputs of each lie so much deeper than its inputs


def leaves_loop(graph: Graph, source: Source, taker: str) -> bool:
    """Return whether a wire between these would lead out of a loop past its end."""
    depths: dict[str, int] = {}
    for node_id in graph.above(*graph.nodes):
        givers = [wire.giver for wire in graph.wires(node_id)]
        depths[node_id] = max((depths.get(giver, 0) + _deeper(graph, giver) for giver in givers),
                              default=0)
    return depths[source[0]] + _deeper(graph, source[0]) > depths[taker]


def _deeper(graph: Graph, node_id: str) -> int:
    return _DEEPER.get(graph.nodes[node_id]["class_type"], 0)


def keeps_iterations(graph: Graph, node_id: str) -> bool:
    """Return whether a loop above a node finds what its turns gave in ComfyUI's cache again."""
    nodes = [graph.nodes[one] for one in graph.above(node_id)]
    return any(node["class_type"] == START and node["inputs"].get("cache_iterations") is True
               for node in nodes)

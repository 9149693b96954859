"""Where the nodes and wires of a saved workflow lie, as the classic canvas draws them.

The sizes are LiteGraph's: a title of 30 pixels above a node, a slot every 20 pixels, a wire as a
Bezier curve whose handles are horizontal and a quarter of its length.
"""

from math import dist
from typing import Any

TITLE, SLOT, WIDGET = 30, 20, 24
BADGE = 24  # above a title, where the classic canvas writes the name of the node's pack
STEPS = 40
END = 12  # pixels of a wire that lie on the node that it belongs to
Json = dict[str, Any]
Point = tuple[float, float]
Box = tuple[float, float, float, float]


def box(node: Json) -> Box:
    """Left, top (of the title), right, bottom."""
    (x, y), (width, height) = node["pos"], node["size"]
    return x, y - TITLE, x + width, y + height


def wires(workflow: Json) -> dict[int, list[Point]]:
    """The points that each link goes through: an output, its reroutes, an input."""
    nodes = {node["id"]: node for node in workflow["nodes"]}
    reroutes = {each["id"]: each for each in workflow["extra"].get("reroutes", [])}
    last = {each["id"]: each["parentId"] for each in workflow["extra"].get("linkExtensions", [])}
    found = {}
    for link, origin, output, target, slot, _ in workflow["links"]:
        between, at = [], last.get(link)
        while at is not None:
            between.insert(0, tuple(reroutes[at]["pos"]))
            at = reroutes[at].get("parentId")
        found[link] = [_output(nodes[origin], output), *between, _input(nodes[target], slot)]
    return found


def curve(start: Point, end: Point) -> list[Point]:
    """Points of the curve between two of these."""
    handle = dist(start, end) / 4
    corners = (start, (start[0] + handle, start[1]), (end[0] - handle, end[1]), end)
    return [_bezier(corners, step / STEPS) for step in range(STEPS + 1)]


def is_behind(points: list[Point], node: Json, first: bool, last: bool) -> bool:
    """Whether a curve crosses a node; at the `first` or `last` one it may touch its edge."""
    left, top, right, bottom = box(node)
    left, right = (left + END if last else left), (right - END if first else right)
    return any(left < x < right and top < y < bottom for x, y in points)


def _bezier(corners: tuple[Point, Point, Point, Point], t: float) -> Point:
    weights = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t * t, t**3)
    x, y = (sum(w * corner[axis] for w, corner in zip(weights, corners, strict=True))
            for axis in (0, 1))
    return x, y


def _output(node: Json, slot: int) -> Point:
    return node["pos"][0] + node["size"][0], node["pos"][1] + SLOT * (slot + 0.7)


def _input(node: Json, slot: int) -> Point:
    sockets = [each for each in node["inputs"] if not each.get("widget")]
    chosen = node["inputs"][slot]
    if chosen in sockets:
        return node["pos"][0], node["pos"][1] + SLOT * (sockets.index(chosen) + 0.7)
    rows = max(len(sockets), len(node["outputs"]))
    widgets = [each for each in node["inputs"] if each.get("widget")]
    return node["pos"][0], node["pos"][1] + SLOT * rows + 14 + WIDGET * widgets.index(chosen)

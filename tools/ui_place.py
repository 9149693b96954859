"""Where a new node fits into a graph of a file: over no other node, and across no group's frame."""

from collections.abc import Sequence
from typing import Any

from .ui_graph import Level
from .ui_node import GAP, HEADER, box, overlap

Json = dict[str, Any]
Box = tuple[float, ...]  # left, top, width and height
TITLE_OF_FONT = 1.4  # the title of a group is that much higher than its letters
FONT = 24


def free_place(level: Level, size: Sequence[float], near: Box, before: Json | None) -> list[float]:
    """The free place nearest to the right of the box `near`, and never left of that.

    At the height of the node `before`, which it comes before, where there is room between both.
    """
    x, y = near[0] + near[2] + GAP, near[1]
    if before is not None and box(before)[0] >= x + size[0] + GAP:
        y = box(before)[1]
    boxes, frames = list(level.boxes()), list(_frames(level.graph))
    lefts = _near(x, [side for one in (*boxes, *frames) for side in (
        one[0] + one[2] + GAP, one[0] + GAP)], at_least=x)
    tops = _near(y, [side for one in (*boxes, *frames) for side in (
        one[1] + one[3] + HEADER + GAP, one[1] - size[1] - HEADER - GAP,
        one[1] + HEADER + GAP)])
    best, least = [x, y], float("inf")
    for left in lefts:
        if (left - x) ** 2 >= least:
            break
        for top in tops:
            far = (left - x) ** 2 + (top - y) ** 2
            if far >= least:
                break
            if _is_free((left, top, *size), boxes, frames):
                best, least = [left, top], far
    return best


def _near(wanted: float, others: list[float], at_least: float = float("-inf")) -> list[float]:
    """These from the nearest on, `wanted` first."""
    found = {one for one in others if one >= at_least} | {wanted}
    return sorted(found, key=lambda one: abs(one - wanted))


def _is_free(place: Box, boxes: Sequence[Box], frames: Sequence[Box]) -> bool:
    return not any(overlap(place, one) for one in boxes) and not any(
        overlap(place, frame) and not _is_inside(place, frame) for frame in frames)


def _is_inside(place: Box, frame: Box) -> bool:
    """Whether a node lies in a frame with its title bar, which is above `place`."""
    return (frame[0] <= place[0] and place[0] + place[2] <= frame[0] + frame[2]
            and frame[1] <= place[1] - HEADER and place[1] + place[3] <= frame[1] + frame[3])


def _frames(graph: Json) -> list[Box]:
    """What lies below the titles of the groups, with these as title bars above it."""
    found: list[Box] = []
    for group in graph.get("groups") or []:
        if len(bounding := group.get("bounding") or []) == 4:
            left, top, width, height = map(float, bounding)
            title = TITLE_OF_FONT * float(group.get("font_size") or FONT)
            found.append((left, top + title, width, height - title))
    return found

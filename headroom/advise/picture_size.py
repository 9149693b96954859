"""The size of the pictures or of the video that a workflow makes, as its nodes say it."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from ..base.graph import Graph
from ..base.prompt_node import is_link
from ..sizes.text import parse_sizes

# Decoding needs most of what a picture needs. By ComfyUI's own estimate (comfy/sd.py: 2178 x 64
# halves per latent pixel of 8 x 8). Video is decoded in pieces, and sampling it needs more.
PICTURE_BYTES_A_PIXEL = 2178 * 2
VIDEO_BYTES_A_PIXEL = 400  # and frame
SIDE = 1024  # if no node has a size
FRAMES = ("length", "frames", "num_frames", "video_frames", "video_length")
UNSAID_FRAMES = 121  # of a video, if another node computes how many
_working_bytes = attrgetter("working_bytes")


class Size(NamedTuple):
    """The size of pictures or of a video; `…_said`: a node says it, no other one computes it."""

    width: int = SIDE
    height: int = SIDE
    pictures: int = 1
    frames: int = 1
    is_said: bool = False
    frames_said: bool = True

    @property
    def working_bytes(self) -> int:
        pixels = self.width * self.height * self.pictures
        return pixels * max(PICTURE_BYTES_A_PIXEL // (1 if self.frames == 1 else 2),
                            VIDEO_BYTES_A_PIXEL * self.frames)


def largest_size(graph: Graph, nodes: list[str]) -> Size:
    """Return the size of these nodes that needs most; a picture of 1024 pixels if none has one.

    Where another node computes the sides, those of the largest that are said are taken.
    """
    sizes = [size for one in nodes if (size := size_of(graph, graph.nodes[one]["inputs"]))]
    largest = max((one for one in sizes if one.is_said), key=_working_bytes, default=Size())
    width, height, is_said = largest.width, largest.height, largest.is_said
    unsaid = [one._replace(width=width, height=height, is_said=is_said)
              for one in sizes if not one.is_said]
    return max([largest, *unsaid], key=_working_bytes)


def size_of(graph: Graph, inputs: Mapping[str, Any]) -> Size | None:
    """Return the size of what a node makes, by its inputs; None if they have none."""
    if isinstance(listed := inputs.get("sizes"), str):  # Size Sorter's
        try:
            return Size(*max(parse_sizes(listed), key=lambda one: one.width * one.height),
                        is_said=True)
        except ValueError:
            return None
    width, height, pictures = (
        _count(graph, inputs.get(name)) for name in ("width", "height", "batch_size"))
    is_said = bool(width and height)
    if not is_said and not (is_link(inputs.get("width")) and is_link(inputs.get("height"))):
        return None
    told = next((inputs[name] for name in FRAMES if name in inputs), 1)
    frames = _count(graph, told)
    is_unsaid = is_link(told) and not frames
    return Size(width or SIDE, height or SIDE, pictures or 1,
                UNSAID_FRAMES if is_unsaid else frames or 1, is_said, not is_unsaid)


def _count(graph: Graph, value: Any) -> int:
    """Return the count that an input is given, also by a node that only holds a value; else 0."""
    if is_link(value) and value[0] in graph.nodes:
        value = graph.nodes[value[0]]["inputs"].get("value")
    return value if isinstance(value, int) and 0 < value < 1 << 20 else 0

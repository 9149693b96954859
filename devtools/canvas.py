"""Draw a workflow for the canvas, and write the same graph as an API prompt.

Nodes are added group by group; each group is a column, groups stand from left to right.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .graph import Node
from .node_info import NodeInfo

TITLE_HEIGHT, ROW, MARGIN, GAP = 30, 24, 16, 40
PREVIEW_HEIGHT = {"SaveImage": 270, "PreviewImage": 270, "LoadImage": 290, "PreviewAny": 240,
                  "SaveAnimatedWEBP": 290}
OURS = {"color": "#232", "bgcolor": "#353"}  # the canvas's own green
NOTE = {"color": "#432", "bgcolor": "#653"}  # and its own brown for notes
NAMESPACE = uuid.UUID("6b1cbe5e-6d5e-4e44-9c39-2f6f3c8d2a10")
Json = dict[str, Any]


@dataclass(frozen=True)
class ModelFile:
    """A public model file: the frontend offers its download where it is missing."""

    name: str
    url: str
    directory: str


@dataclass
class _Group:
    title: str
    color: str
    width: int
    nodes: list[Json] = field(default_factory=list)


class Canvas:
    """A workflow under construction; `ui()` is the file, `prompt()` what a server runs."""

    def __init__(self, name: str, infos: Mapping[str, NodeInfo]) -> None:
        self.name = name
        self.infos = infos
        self._groups: list[_Group] = []
        self._nodes: list[Json] = []
        self._links: list[list[Any]] = []
        self._prompt: Json = {}

    @contextmanager
    def group(self, title: str, color: str = "#3f789e", width: int = 340) -> Iterator[None]:
        """A column that the nodes added inside it stand in, from top to bottom."""
        self._groups.append(_Group(title, color, width))
        yield

    def note(self, text: str, title: str = "Read me", height: int | None = None) -> None:
        """A Markdown note in the current group."""
        lines = sum(1 + len(line) // 52 for line in text.splitlines())
        node = self._place("MarkdownNote", title, height or 60 + 17 * lines)
        node.update(inputs=[], outputs=[], properties={}, widgets_values=[text], **NOTE)

    def add(
        self,
        class_type: str,
        title: str | None = None,
        models: Sequence[ModelFile] = (),
        control: str = "fixed",
        **inputs: Any,
    ) -> Node:
        """Add a node; a Node or a link as an input becomes a wire, anything else a widget's value.

        `control` is what happens to a seed after a run. Widgets left out keep their default.
        """
        info = self.infos[class_type]
        for name in inputs:
            info.input(name)
        links = {
            key: value[0] if isinstance(value, Node) else value
            for key, value in inputs.items() if isinstance(value, Node | list)
        }
        values = {item.name: inputs.get(item.name, _default(item.options)) for item in info.widgets}
        node = self._place(class_type, title or info.title, self._height(info))
        node["inputs"] = self._inputs(node["id"], info, links)
        node["outputs"] = [
            {"name": label, "type": kind, "links": []} for kind, label in info.outputs
        ]
        node["properties"] = {"Node name for S&R": class_type}
        if models:
            node["properties"]["models"] = [vars(model) for model in models]
        node["widgets_values"] = _saved(info, values, links, control)
        if class_type.startswith("Headroom"):
            node.update(OURS)
        self._prompt[str(node["id"])] = {
            "inputs": {**{k: v for k, v in values.items() if k not in links}, **links},
            "class_type": class_type,
            "_meta": {"title": node["title"]},
        }
        return Node(str(node["id"]))

    # -- the two formats ----------------------------------------------------------------------

    def prompt(self) -> Json:
        """The graph as `/prompt` takes it."""
        return self._prompt

    def ui(self) -> Json:
        """The graph as the canvas opens it."""
        groups = self._lay_out()
        return {
            "id": str(uuid.uuid5(NAMESPACE, self.name)),
            "revision": 0,
            "last_node_id": len(self._nodes),
            "last_link_id": len(self._links),
            "nodes": self._nodes,
            "links": self._links,
            "groups": groups,
            "config": {},
            "extra": {"ds": {"scale": 0.6, "offset": [120, 120]}},
            "version": 0.4,
        }

    # -- inside -------------------------------------------------------------------------------

    def _place(self, class_type: str, title: str, height: int) -> Json:
        group = self._groups[-1]
        node: Json = {
            "id": len(self._nodes) + 1,
            "type": class_type,
            "pos": [0, 0],
            "size": [group.width, height],
            "flags": {},
            "order": len(self._nodes),
            "mode": 0,
            "title": title,
        }
        group.nodes.append(node)
        self._nodes.append(node)
        return node

    def _height(self, info: NodeInfo) -> int:
        rows = max(len(info.sockets), len(info.outputs))
        rows += sum(item.lines + item.has_control for item in info.widgets)
        return MARGIN + ROW * rows + PREVIEW_HEIGHT.get(info.class_type, 0)

    def _inputs(self, node_id: int, info: NodeInfo, links: Json) -> list[Json]:
        slots: list[Json] = [
            {"name": item.name, "type": item.type, "link": None} for item in info.sockets
        ]
        slots += [
            {"name": item.name, "type": item.type, "widget": {"name": item.name}, "link": None}
            for item in info.widgets if item.name in links
        ]
        for index, slot in enumerate(slots):
            if slot["name"] in links:
                slot["link"] = self._connect(links[slot["name"]], node_id, index)
        return slots

    def _connect(self, source: list[Any], target: int, slot: int) -> int:
        origin, output = int(source[0]), int(source[1])
        port = self._nodes[origin - 1]["outputs"][output]
        link = len(self._links) + 1
        self._links.append([link, origin, output, target, slot, port["type"]])
        port["links"].append(link)
        return link

    def _lay_out(self) -> list[Json]:
        """Give every node its place and return the groups around them."""
        frames, x = [], 0
        for number, group in enumerate(self._groups, 1):
            y = 0
            for node in group.nodes:
                node["pos"] = [x, y]
                y += node["size"][1] + TITLE_HEIGHT + GAP
            box = [x - 20, -TITLE_HEIGHT - 60, group.width + 40, y + TITLE_HEIGHT + 30]
            frames.append({"id": number, "title": group.title, "bounding": box,
                           "color": group.color, "font_size": 24, "flags": {}})
            x += group.width + 100
        return frames


def _default(options: Mapping[str, Any]) -> Any:
    if "default" in options:
        return options["default"]
    choices = options.get("options") or [""]
    return choices[0]


def _saved(info: NodeInfo, values: Json, links: Json, control: str) -> list[Any]:
    """`widgets_values`: every widget in order, also those that a wire replaces."""
    saved = []
    for item in info.widgets:
        saved.append(values[item.name] if item.name not in links else _default(item.options))
        if item.has_control:
            saved.append(control)
    return saved + ["image"] * sum(item.has_upload for item in info.inputs)

"""Put an edit of the advice into a workflow file of the canvas: nodes placed, links right.

The user's nodes keep their ids, titles, places, sizes and values. Subgraphs are the canvas's own
to edit: an edit of a node inside of one is refused with a sentence.
"""

import copy
from collections.abc import Mapping
from typing import Any

from .errors import DevError
from .node_info import Input, NodeInfo

Json = dict[str, Any]
WIDTH, GAP, HEADER, ROW, TEXT_ROW = 270, 40, 34, 24, 18
FIRST_Y, SLOT_ROW = 26, 20
REROUTE, BYPASSED = "Reroute", 4
REF = "ref:"


def edited_workflow(
    workflow: Json, edit: Mapping[str, Any], infos: Mapping[str, NodeInfo]
) -> Json:
    """The workflow with the steps of `edit` done; the one that comes in is not changed."""
    work = _Canvas(copy.deepcopy(workflow), infos)
    for step in edit["steps"]:
        work.do(step)
    return work.finished()


class _Canvas:
    """One edit of one file."""

    def __init__(self, workflow: Json, infos: Mapping[str, NodeInfo]) -> None:
        self.workflow, self.infos = workflow, infos
        self.nodes: dict[str, Json] = {str(node["id"]): node for node in workflow["nodes"]}
        self.links: dict[int, list[Any]] = {
            link[0]: link for link in map(_as_list, workflow.get("links") or [])
        }
        self.as_objects = any(isinstance(link, dict) for link in workflow.get("links") or [])
        self.refs: dict[str, str] = {}

    def do(self, step: Mapping[str, Any]) -> None:
        {"insert": self.insert, "replace": self.replace, "set": self.set}[step["op"]](step)

    def finished(self) -> Json:
        links = [self._kept_form(link) for link in self.links.values()]
        last = max([0, *self.links])
        self.workflow.update(nodes=list(self.nodes.values()), links=links)
        if "last_node_id" in self.workflow:
            self.workflow["last_node_id"] = max(int(key) for key in self.nodes)
            self.workflow["last_link_id"] = last
        if isinstance(self.workflow.get("state"), dict):
            self.workflow["state"].update(
                lastNodeId=max(int(key) for key in self.nodes), lastLinkId=last)
        return self.workflow

    def _kept_form(self, link: list[Any]) -> Any:
        keys = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
        return dict(zip(keys, link, strict=False)) if self.as_objects else link

    # ---------------------------------------------------- steps

    def insert(self, step: Mapping[str, Any]) -> None:
        takers = [(self.node(node), name) for node, name in step["to"]]
        fed = self.fed(*takers[0]) if takers else None
        source = fed or self.output(step["from"])
        info = self.info(step["class_type"])
        node = self.new_node(info, step.get("inputs") or {}, self.nodes[str(source[0])],
                             takers[0][0] if takers else None)
        self.refs[step.get("ref") or str(node["id"])] = str(node["id"])
        for taker, name in takers:
            if self.fed(taker, name) == source:
                self.connect((node["id"], step["out"]), taker, name)
        self.connect(source, node, step["through"])
        for name, link in (step.get("links") or {}).items():
            self.connect(self.output(link), node, name)

    def replace(self, step: Mapping[str, Any]) -> None:
        """Another class in a node's place: what it had is kept, sockets and values are new."""
        old = self.node(step["node"])
        before, info = self.infos[old["type"]], self.info(step["class_type"])
        values = {**dict.fromkeys([]), **(step.get("inputs") or {})}
        kept = _values(old, before)
        wires = {slot["name"]: slot["link"] for slot in old.get("inputs") or []
                 if slot.get("link") is not None}
        outgoing = [link for link in self.links.values() if str(link[1]) == str(old["id"])]
        moved = {int(was): now for was, now in step["outputs"].items()}
        if any(link[2] not in moved for link in outgoing):
            raise DevError(f"Node {old['id']} has outputs that {info.title} does not have.")
        if not old.get("title"):
            old["title"] = before.title
        for name, new in step["keep"].items():
            if name in kept:
                values[new] = kept[name]
        _dress(old, info, values)
        for link in outgoing:
            link[2] = moved[link[2]]
            _output_links(old, link[2]).append(link[0])
        for name, link_id in wires.items():
            if name in step["keep"]:
                link = self.links.pop(link_id)
                self.connect((link[1], link[2]), old, step["keep"][name])
            else:
                self.cut(link_id)

    def set(self, step: Mapping[str, Any]) -> None:
        node = self.node(step["node"])
        info = self.infos[node["type"]]
        values = _values(node, info)
        values[step["input"]] = step["value"]
        node["widgets_values"] = _saved(info, values)

    # ---------------------------------------------------- nodes

    def node(self, named: str) -> Json:
        found = self.refs.get(named[len(REF):]) if named.startswith(REF) else named
        if found is not None and ":" in found:
            raise DevError(f"Node {found} is inside of a subgraph, which only the canvas can "
                           "edit; open the workflow in ComfyUI and apply the advice there.")
        if found is None or found not in self.nodes:
            raise DevError(f"The workflow has no node {named}: it has changed since it ran.")
        return self.nodes[found]

    def info(self, class_type: str) -> NodeInfo:
        if class_type not in self.infos:
            raise DevError(f"The server has no node {class_type!r}; update Headroom on it.")
        return self.infos[class_type]

    def new_node(self, info: NodeInfo, values: Mapping[str, Any], near: Json,
                 before: Json | None) -> Json:
        new_id = 1 + max([int(key) for key in self.nodes] or [0])
        node: Json = {"id": new_id, "type": info.class_type, "flags": {}, "mode": 0,
                      "order": len(self.nodes), "title": info.title,
                      "properties": {"Node name for S&R": info.class_type}}
        _dress(node, info, values)
        node["size"] = [WIDTH, _height(info)]
        node["pos"] = self.free_place(node["size"], near, before)
        self.nodes[str(new_id)] = node
        return node

    def free_place(self, size: list[int], near: Json, before: Json | None) -> list[float]:
        """A place right of the node that it comes after, below whatever is there."""
        x = _box(near)[0] + _box(near)[2] + GAP
        y = _box(near)[1]
        if before is not None and _box(before)[0] >= x + size[0] + GAP:
            y = _box(before)[1]
        boxes = [_box(node) for node in self.nodes.values()]
        while hit := next((box for box in boxes if _overlap((x, y, *size), box)), None):
            y = hit[1] + hit[3] + HEADER + GAP
        return [x, y]

    # ---------------------------------------------------- links

    def output(self, link: Any) -> tuple[int, int]:
        return self.node(link[0])["id"], int(link[1])

    def fed(self, node: Json, name: str) -> tuple[int, int] | None:
        """What feeds an input now, seen through reroutes and bypassed nodes as the prompt is."""
        slot = _slot(node, name)
        link = self.links.get(slot["link"]) if slot and slot.get("link") is not None else None
        return None if link is None else (link[1], link[2])

    def connect(self, source: tuple[int, int], node: Json, name: str) -> None:
        slot = _slot(node, name) or self._widget_slot(node, name)
        if slot.get("link") is not None:
            self.cut(slot["link"])
        link_id = 1 + max([0, *self.links, int(self.workflow.get("last_link_id") or 0)])
        giver = self.nodes[str(source[0])]
        kind = giver["outputs"][source[1]]["type"]
        self.links[link_id] = [link_id, source[0], source[1], node["id"],
                               node["inputs"].index(slot), kind]
        slot["link"] = link_id
        _output_links(giver, source[1]).append(link_id)

    def _widget_slot(self, node: Json, name: str) -> Json:
        """A widget that becomes an input."""
        item = self.infos[node["type"]].input(name)
        slot = {"name": name, "type": item.type, "widget": {"name": name}, "link": None}
        node.setdefault("inputs", []).append(slot)
        return slot

    def cut(self, link_id: int) -> None:
        link = self.links.pop(link_id)
        giver = self.nodes[str(link[1])]
        links = _output_links(giver, link[2])
        if link_id in links:
            links.remove(link_id)


# -------------------------------------------------------- what a node looks like in a file


def _dress(node: Json, info: NodeInfo, values: Mapping[str, Any]) -> None:
    """Give a node the sockets and values of a class."""
    node["type"] = info.class_type
    node["properties"] = {"Node name for S&R": info.class_type}
    node["inputs"] = [{"name": item.name, "type": item.type, "link": None}
                      for item in info.sockets]
    node["outputs"] = [{"name": name, "type": kind, "links": []} for kind, name in info.outputs]
    node["widgets_values"] = _saved(info, values)


def _saved(info: NodeInfo, values: Mapping[str, Any]) -> list[Any]:
    by_name = {item.name: values.get(item.name, _default(item)) for item in info.widgets}
    return [None if name is None else by_name[name] for name in info.saved_widgets()]


def _default(item: Input) -> Any:
    options = item.options.get("options") or [None]
    return item.options.get("default", options[0] if item.type == "COMBO" else None)


def _values(node: Json, info: NodeInfo) -> Json:
    values = node.get("widgets_values") or []
    if isinstance(values, dict):
        return dict(values)
    return {name: value for name, value in zip(info.saved_widgets(), values, strict=False)
            if name is not None}


def _slot(node: Json, name: str) -> Json | None:
    return next((slot for slot in node.get("inputs") or [] if slot["name"] == name), None)


def _output_links(node: Json, number: int) -> list[int]:
    output = node["outputs"][number]
    if output.get("links") is None:
        output["links"] = []
    links: list[int] = output["links"]
    return links


def _as_list(link: Any) -> list[Any]:
    if isinstance(link, dict):
        return [link["id"], link["origin_id"], link["origin_slot"], link["target_id"],
                link["target_slot"], link.get("type", "*")]
    return list(link)


def _height(info: NodeInfo) -> int:
    slots = max(len(info.sockets), len(info.outputs))
    widgets = sum(ROW + TEXT_ROW * (item.lines - 1) for item in info.widgets)
    return FIRST_Y + SLOT_ROW * slots + widgets


def _box(node: Json) -> tuple[float, float, float, float]:
    """x, y, width and height with the title bar, which is above `pos`."""
    x, y = _pair(node.get("pos"), (0, 0))
    width, height = _pair(node.get("size"), (WIDTH, 100))
    return x, y, width, height


def _pair(value: Any, otherwise: tuple[float, float]) -> tuple[float, float]:
    if isinstance(value, dict):
        return float(value["0"]), float(value["1"])
    return (float(value[0]), float(value[1])) if value else otherwise


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return (
        one[0] < other[0] + other[2] + GAP / 2 and other[0] < one[0] + one[2] + GAP / 2
        and one[1] - HEADER < other[1] + other[3] and other[1] - HEADER < one[1] + one[3]
    )

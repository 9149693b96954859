"""Put an edit of the advice into a workflow file of the canvas: nodes placed, links right.

The user's nodes keep their ids, titles, places, sizes and values. Subgraphs are the canvas's own
to edit: an edit of a node inside of one is refused with a sentence.
"""

import copy
from collections.abc import Mapping
from typing import Any

from .errors import DevError
from .node_info import NodeInfo
from .ui_node import GAP, HEADER, WIDTH, box, dress, height, overlap, saved, values
from .ui_prompt import BYPASSED, REROUTE, bypassed_link

Json = dict[str, Any]
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
        origin = self.origin(source)
        same = [(taker, name) for taker, name in takers
                if self.origin(self.fed(taker, name)) == origin]
        info = self.info(step["class_type"])
        node = self.new_node(info, step.get("inputs") or {}, self.nodes[str(source[0])],
                             takers[0][0] if takers else None)
        self.refs[step.get("ref") or str(node["id"])] = str(node["id"])
        for taker, name in same:
            self.connect((node["id"], step["out"]), taker, name)
        self.connect(source, node, step["through"])
        for name, link in (step.get("links") or {}).items():
            self.connect(self.output(link), node, name)

    def replace(self, step: Mapping[str, Any]) -> None:
        """Another class in a node's place: what it had is kept, sockets and values are new."""
        old = self.node(step["node"])
        before, info = self.infos[old["type"]], self.info(step["class_type"])
        wanted = dict(step.get("inputs") or {})
        kept = values(old, before)
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
                wanted[new] = kept[name]
        dress(old, info, wanted)
        for link in outgoing:
            link[2] = moved[link[2]]
            _output_links(old, link[2]).append(link[0])
        for name, link_id in wires.items():
            _, origin, output, *_ = self.links[link_id]
            self.cut(link_id)
            if name in step["keep"]:
                self.connect((origin, output), old, step["keep"][name])

    def set(self, step: Mapping[str, Any]) -> None:
        node = self.node(step["node"])
        info = self.infos[node["type"]]
        changed = {**values(node, info), step["input"]: step["value"]}
        node["widgets_values"] = saved(info, changed)

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

    def new_node(self, info: NodeInfo, given: Mapping[str, Any], near: Json,
                 before: Json | None) -> Json:
        new_id = 1 + max([int(key) for key in self.nodes] or [0])
        node: Json = {"id": new_id, "type": info.class_type, "flags": {}, "mode": 0,
                      "order": len(self.nodes), "title": info.title,
                      "properties": {"Node name for S&R": info.class_type}}
        dress(node, info, given)
        node["size"] = [WIDTH, height(info)]
        node["pos"] = self.free_place(node["size"], near, before)
        self.nodes[str(new_id)] = node
        return node

    def free_place(self, size: list[int], near: Json, before: Json | None) -> list[float]:
        """A place right of the node that it comes after, below whatever is there."""
        x = box(near)[0] + box(near)[2] + GAP
        y = box(near)[1]
        if before is not None and box(before)[0] >= x + size[0] + GAP:
            y = box(before)[1]
        boxes = [box(node) for node in self.nodes.values()]
        while hit := next((box for box in boxes if overlap((x, y, *size), box)), None):
            y = hit[1] + hit[3] + HEADER + GAP
        return [x, y]

    # ---------------------------------------------------- links

    def output(self, link: Any) -> tuple[int, int]:
        return self.node(link[0])["id"], int(link[1])

    def origin(self, source: tuple[int, int] | None) -> tuple[int, int] | None:
        """The output that a prompt has there: reroutes and bypassed nodes only hand it on."""
        node = None if source is None else self.nodes[str(source[0])]
        while node is not None and source is not None:
            if node["type"] == REROUTE:
                link = node["inputs"][0].get("link")
            elif node.get("mode", 0) == BYPASSED:
                link = bypassed_link(node, source[1])
            else:
                return source
            source = (self.links[link][1], self.links[link][2]) if link in self.links else None
            node = None if source is None else self.nodes[str(source[0])]
        return None

    def fed(self, node: Json, name: str) -> tuple[int, int] | None:
        """The output whose link ends in an input now."""
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
        self._forget(link_id)

    def _forget(self, link_id: int) -> None:
        """Take a link off the reroutes that the canvas draws on it."""
        extra = self.workflow.get("extra") or {}
        if extra.get("linkExtensions"):
            extra["linkExtensions"] = [one for one in extra["linkExtensions"]
                                       if one.get("id") != link_id]
        for reroute in extra.get("reroutes") or []:
            if link_id in (reroute.get("linkIds") or []):
                reroute["linkIds"].remove(link_id)


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

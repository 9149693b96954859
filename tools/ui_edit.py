"""Put an edit of the advice into a workflow file of the canvas: nodes placed, links right.

The user's nodes keep their ids, titles, places, sizes and values. What is inside of a subgraph is
changed in its definition, which all its instances share, as on the canvas.
"""

import copy
from collections.abc import Mapping
from typing import Any

from .errors import DevError
from .node_info import NodeInfo
from .ui_file import File, path_of
from .ui_graph import Level, Source, links_of, slot
from .ui_node import WIDTH, dress, height, set_value
from .ui_place import free_place

Json = dict[str, Any]
REF = "ref:"
Taker = tuple[str, Json, str]  # the id that runs have, the node, the name of its input


def edited_workflow(
    workflow: Json, edit: Mapping[str, Any], infos: Mapping[str, NodeInfo]
) -> Json:
    """The workflow with the steps of `edit` done; the one that comes in is not changed."""
    work = _Canvas(copy.deepcopy(workflow), infos)
    for step in edit["steps"]:
        work.do(step)
    return work.file.finished()


class _Canvas:
    """One edit of one file."""

    def __init__(self, workflow: Json, infos: Mapping[str, NodeInfo]) -> None:
        self.file, self.infos = File(workflow), infos
        self.refs: dict[str, str] = {}

    def do(self, step: Mapping[str, Any]) -> None:
        {"insert": self.insert, "replace": self.replace, "set": self.set}[step["op"]](step)

    # ---------------------------------------------------- steps

    def insert(self, step: Mapping[str, Any]) -> None:
        """A new node in each graph that has inputs to come behind it."""
        groups = self.by_level(step)
        for level, takers in groups:
            self.insert_once(step, level, takers)
        if not groups:
            self.insert_once(step, self.find(step["from"][0])[0], [])

    def by_level(self, step: Mapping[str, Any]) -> list[tuple[Level, list[Taker]]]:
        """The inputs by graph; one that several instances of a subgraph share comes once."""
        found: dict[int, tuple[Level, list[Taker]]] = {}
        for named, name in step["to"]:
            level, node = self.find(named)
            takers = found.setdefault(id(level), (level, []))[1]
            if not any(other is node and known == name for _, other, known in takers):
                takers.append((self.id(named), node, name))
        return list(found.values())

    def insert_once(self, step: Mapping[str, Any], level: Level, takers: list[Taker]) -> None:
        path = path_of(takers[0][0] if takers else self.id(step["from"][0]))
        fed = level.fed(*takers[0][1:]) if takers else None
        source = fed or self.led(step["from"], path)
        origin = level.origin(source)
        same = [taker for taker in takers if level.origin(level.fed(*taker[1:])) == origin]
        info = self.info(step["class_type"])
        node = self.new_node(level, info, step.get("inputs") or {}, source,
                             takers[0][1] if takers else None)
        new_id = ":".join([*path, str(node["id"])])
        self.refs[step.get("ref") or new_id] = new_id
        for _, taker, name in same:
            self.connect(level, (node["id"], step["out"]), taker, name)
        self.connect(level, source, node, step["through"])
        for name, link in (step.get("links") or {}).items():
            self.connect(level, self.led(link, path), node, name)

    def replace(self, step: Mapping[str, Any]) -> None:
        """Another class in a node's place: what it had is kept, sockets and values are new."""
        level, old = self.find(step["node"])
        before, info = self.info(old["type"]), self.info(step["class_type"])
        wanted = dict(step.get("inputs") or {})
        kept = before.saved_values(old)
        wires = {one["name"]: one["link"] for one in old.get("inputs") or []
                 if one.get("link") is not None}
        outgoing = level.outgoing(old)
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
            links_of(old["outputs"][link[2]]).append(link[0])
        for name, link_id in wires.items():
            _, origin, output, *_ = level.links[link_id]
            level.cut(link_id)
            if name in step["keep"]:
                self.connect(level, (origin, output), old, step["keep"][name])

    def set(self, step: Mapping[str, Any]) -> None:
        """Another value of a widget; a wire that was in its input is taken out."""
        level, node = self.find(step["node"])
        info = self.info(node["type"])
        set_value(node, info, step["input"], step["value"])
        taker = slot(node, step["input"])
        if taker is not None and taker.get("link") is not None:
            level.cut(taker["link"])
            taker["link"] = None

    # ---------------------------------------------------- nodes

    def id(self, named: str) -> str:
        """The id that runs have for a node, which a step names by it or by an earlier `ref`."""
        found = self.refs.get(named[len(REF):]) if named.startswith(REF) else named
        if found is None:
            raise DevError(f"The workflow has no node {named}: it has changed since it ran.")
        return found

    def find(self, named: str) -> tuple[Level, Json]:
        return self.file.find(self.id(named))

    def info(self, class_type: str) -> NodeInfo:
        if class_type not in self.infos:
            raise DevError(f"The server has no node {class_type!r}; update Headroom on it.")
        return self.infos[class_type]

    def new_node(self, level: Level, info: NodeInfo, given: Mapping[str, Any], source: Source,
                 before: Json | None) -> Json:
        new_id = self.file.new_node_id()
        node: Json = {"id": new_id, "type": info.class_type, "flags": {}, "mode": 0,
                      "order": len(level.nodes), "title": info.title,
                      "properties": {"Node name for S&R": info.class_type}}
        dress(node, info, given)
        node["size"] = [WIDTH, height(info)]
        node["pos"] = free_place(level, node["size"], level.box_of(source), before)
        level.nodes[str(new_id)] = node
        return node

    # ---------------------------------------------------- links

    def led(self, link: Any, path: list[str]) -> Source:
        """An output that a step names, as a source inside the subgraph at `path`."""
        return self.file.led(self.id(link[0]), int(link[1]), path)

    def connect(self, level: Level, source: Source, node: Json, name: str) -> None:
        taker = slot(node, name) or self._widget_slot(node, name)
        self.file.connect(level, source, node, taker)

    def _widget_slot(self, node: Json, name: str) -> Json:
        """A widget that becomes an input."""
        item = self.info(node["type"]).input(name)
        taker = {"name": name, "type": item.type, "widget": {"name": name}, "link": None}
        node.setdefault("inputs", []).append(taker)
        return taker

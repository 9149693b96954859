"""Turn a workflow as the canvas saves it into the prompt that a server runs."""

from collections.abc import Iterator, Mapping
from typing import Any

from .errors import DevError
from .node_info import NodeInfo
from .ui_subgraph import INPUTS, OUTPUTS, definitions, promoted_values
from .ui_virtual import (
    GETTERS,
    HAND_ON,
    PRIMITIVE,
    handed_link,
    is_virtual,
    refuse_broadcast,
    setter_of,
)

MUTED, BYPASSED = 2, 4
Json = dict[str, Any]


def is_workflow(data: Any) -> bool:
    """Whether it is a file of the canvas rather than an API prompt."""
    return isinstance(data, dict) and isinstance(data.get("nodes"), list)


def api_prompt(workflow: Json, infos: Mapping[str, NodeInfo]) -> Json:
    """The API-format prompt that the canvas would queue for this workflow, subgraphs unfolded.

    DevError where the server lacks a node.
    """
    top = _Level(workflow, infos, definitions(workflow))
    return dict(top.prompt())


class _Level:
    """The top of a file, or one subgraph as one of its instances runs it: ids are "30:12" there."""

    def __init__(
        self, graph: Json, infos: Mapping[str, NodeInfo], known: Mapping[str, Json],
        instance: Json | None = None, outer: "_Level | None" = None,
    ) -> None:
        self.graph, self.infos, self.known = graph, infos, known
        self.instance, self.outer = instance, outer
        self.path: str = f"{outer.path}{instance['id']}:" if outer and instance else ""
        self.nodes = {node["id"]: node for node in graph["nodes"]}
        self.links = dict(_link(entry) for entry in graph.get("links") or [])
        self.values = promoted_values(instance, graph) if instance else {}
        self.inner = {node["id"]: self._inside(node) for node in self.nodes.values()
                      if node["type"] in known}

    def _inside(self, node: Json) -> "_Level":
        level: _Level | None = self
        while level is not None:
            if level.graph.get("id") == node["type"]:
                raise DevError(f"Subgraph {level.graph.get('name')!r} contains itself; open the "
                               "workflow in ComfyUI and take the inner one out.")
            level = level.outer
        return _Level(self.known[node["type"]], self.infos, self.known, node, self)

    def prompt(self) -> Iterator[tuple[str, Json]]:
        for key, node in self.nodes.items():
            if node.get("mode", 0) in (MUTED, BYPASSED):
                continue
            refuse_broadcast(node, f"{self.path}{key}")
            if key in self.inner:
                yield from self.inner[key].prompt()
            elif self.runs(node):
                yield f"{self.path}{key}", self.node(node)

    def runs(self, node: Json) -> bool:
        if is_virtual(node, self.infos):
            return False
        kind = node["type"]
        if kind not in self.infos:
            raise DevError(f"The server has no node {kind!r} (node {self.path}{node['id']} of the "
                           f"workflow); {_way_out(node)}.")
        return True

    def node(self, node: Json) -> Json:
        info = self.infos[node["type"]]
        inputs = self.widget_values(node, info)
        for slot in node.get("inputs") or []:
            source = self.source(slot.get("link"))
            if source is not None:
                inputs[slot["name"]] = source
        title = node.get("title") or info.title
        return {"inputs": inputs, "class_type": node["type"], "_meta": {"title": title}}

    def widget_values(self, node: Json, info: NodeInfo) -> Json:
        found = info.saved_values(node)
        for item in info.unfolded(found).widgets:  # what a newer node has since gained
            if item.name not in found and item.default is not None:
                found[item.name] = item.default
        return {name: _no_wire(value) for name, value in found.items()}

    def source(self, link: int | None) -> Any:
        """What an input gets: [node id, output], a widget's value, or None for nothing."""
        if link is None or link not in self.links:
            return None
        origin, slot, *_ = self.links[link]
        if origin == INPUTS:
            return self.given(slot)
        node = self.nodes.get(origin)
        if node is None or node.get("mode", 0) == MUTED:
            return None
        if node["type"] == PRIMITIVE:
            return _no_wire((node.get("widgets_values") or [None])[0])
        if node["type"] in HAND_ON:
            return self.source(handed_link(node))
        if node.get("mode", 0) == BYPASSED:
            return self.source(bypassed_link(node, slot))
        if node["type"] in GETTERS:
            return self.got(node)
        if origin in self.inner:
            return self.inner[origin].result(slot)
        return [f"{self.path}{origin}", slot]

    def got(self, getter: Json) -> Any:
        """What a setter of the getter's name is given, in this graph or in one around it."""
        setter = setter_of(getter, self.nodes.values())
        if setter is not None:
            return self.source(handed_link(setter))
        return self.outer.got(getter) if self.outer is not None else None

    def given(self, slot: int) -> Any:
        """What comes into this subgraph: by a wire of its instance, else as a value set there."""
        if self.outer is None or self.instance is None:
            return None
        name = self.graph["inputs"][slot]["name"]
        for known in self.instance.get("inputs") or []:
            if known["name"] == name and known.get("link") is not None:
                return self.outer.source(known["link"])
        return self.shown(slot)

    def shown(self, slot: int) -> Any:
        """The value that an input shows on the instance: its own, else the first one's inside."""
        name = self.graph["inputs"][slot]["name"]
        if name in self.values:
            return _no_wire(self.values[name])
        takers = [(link_id, self.nodes.get(link[2])) for link_id, link in self.links.items()
                  if link[:2] == (INPUTS, slot)]
        found = (self.shown_by(link_id, node) for link_id, node in takers if node is not None)
        return next((value for value in found if value is not None), None)

    def shown_by(self, link_id: int, node: Json) -> Any:
        """The value of the widget that a link from outside leads to."""
        taken = [one for one in node.get("inputs") or [] if one.get("link") == link_id]
        if not taken:
            return None
        if inner := self.inner.get(node["id"]):
            names = [one["name"] for one in inner.graph.get("inputs") or []]
            name = taken[0]["name"]
            return inner.shown(names.index(name)) if name in names else None
        if not taken[0].get("widget") or node["type"] not in self.infos:
            return None
        return self.widget_values(node, self.infos[node["type"]]).get(taken[0]["widget"]["name"])

    def result(self, slot: int) -> Any:
        """What an output of this subgraph's instance gives."""
        ends = (key for key, link in self.links.items() if link[2:] == (OUTPUTS, slot))
        return self.source(next(ends, None))


def _no_wire(value: Any) -> Any:
    """A value as a prompt has it, where a list would be a wire."""
    return {"__value__": value} if isinstance(value, list) else value


def _way_out(node: Json) -> str:
    pack = (node.get("properties") or {}).get("cnr_id")
    if pack == "comfy-core":
        return "update ComfyUI, or start it with partner nodes if it is one of these"
    return f"install the pack {pack!r}" if pack else (
        "install the pack that brings it, or update ComfyUI")


def _link(entry: Any) -> tuple[int, tuple[int, int, int, int]]:
    """The id, the origin and the target of a link in either form that files have."""
    if isinstance(entry, dict):
        return entry["id"], (entry["origin_id"], entry["origin_slot"], entry["target_id"],
                             entry["target_slot"])
    return entry[0], (entry[1], entry[2], entry[3], entry[4])


def bypassed_link(node: Json, slot: int) -> int | None:
    """The link that a bypassed node passes on: the same place first, then the first same type."""
    inputs = node.get("inputs") or []
    wanted = node["outputs"][slot]["type"]
    for candidate in [*inputs[slot : slot + 1], *inputs]:
        if candidate.get("link") is not None and candidate["type"] in (wanted, "*"):
            link: int = candidate["link"]
            return link
    return None

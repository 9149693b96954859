"""Turn a workflow as the canvas saves it into the prompt that a server runs."""

from collections.abc import Mapping
from typing import Any

from .errors import DevError
from .node_info import NodeInfo

NOTES = ("Note", "MarkdownNote")
REROUTE, PRIMITIVE = "Reroute", "PrimitiveNode"
MUTED, BYPASSED = 2, 4
CHANGING = ("COMFY_DYNAMIC", "COMFY_AUTOGROW")  # inputs that come and go with the values chosen
Json = dict[str, Any]


def is_workflow(data: Any) -> bool:
    """Whether it is a file of the canvas rather than an API prompt."""
    return isinstance(data, dict) and isinstance(data.get("nodes"), list)


def api_prompt(workflow: Json, infos: Mapping[str, NodeInfo]) -> Json:
    """The API-format prompt that the canvas would queue for this workflow.

    DevError where only the canvas can do it (subgraphs), or where the server lacks a node.
    """
    return _Conversion(workflow, infos).prompt()


class _Conversion:
    def __init__(self, workflow: Json, infos: Mapping[str, NodeInfo]) -> None:
        self.infos = infos
        self.nodes = {node["id"]: node for node in workflow["nodes"]}
        self.links = dict(_link(entry) for entry in workflow.get("links", []))
        known = (workflow.get("definitions") or {}).get("subgraphs") or []
        self.subgraphs = {graph["id"] for graph in known}

    def prompt(self) -> Json:
        return {str(key): self.node(node) for key, node in self.nodes.items() if self.runs(node)}

    def runs(self, node: Json) -> bool:
        kind = node["type"]
        if kind in (*NOTES, REROUTE, PRIMITIVE) or node.get("mode", 0) in (MUTED, BYPASSED):
            return False
        if kind in self.subgraphs:
            raise DevError(
                "This workflow contains a subgraph, which only the canvas can unfold; "
                "open it in ComfyUI and use Export (API) to save the prompt instead."
            )
        if kind not in self.infos:
            raise DevError(
                f"The server has no node {kind!r} (node {node['id']} of the workflow); "
                "install the pack that brings it, or update ComfyUI."
            )
        if any(item.type.startswith(CHANGING) for item in self.infos[kind].inputs):
            raise DevError(
                f"Node {node['id']} ({kind}) has inputs that only the canvas can tell; open the "
                "workflow in ComfyUI and use Export (API) to save the prompt instead."
            )
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
        values = node.get("widgets_values") or []
        names = [item.name for item in info.widgets]
        if isinstance(values, dict):
            return {name: values[name] for name in names if name in values}
        pairs = zip(info.saved_widgets(), values, strict=False)
        found = {name: value for name, value in pairs if name is not None}
        for item in info.widgets:  # a newer node than the file: what it has since gained
            if item.name not in found and "default" in item.options:
                found[item.name] = item.options["default"]
        return found

    def source(self, link: int | None) -> Any:
        """What an input gets: [node id, output], a primitive's value, or None for nothing."""
        if link is None or link not in self.links:
            return None
        origin, slot = self.links[link]
        node = self.nodes.get(origin)
        if node is None or node.get("mode", 0) == MUTED:
            return None
        if node["type"] == PRIMITIVE:
            return (node.get("widgets_values") or [None])[0]
        if node["type"] == REROUTE:
            return self.source(node["inputs"][0].get("link"))
        if node.get("mode", 0) == BYPASSED:
            return self.source(bypassed_link(node, slot))
        return [str(origin), slot]


def _link(entry: Any) -> tuple[int, tuple[int, int]]:
    """The id, the origin and its slot of a link in either form that files have."""
    if isinstance(entry, dict):
        return entry["id"], (entry["origin_id"], entry["origin_slot"])
    return entry[0], (entry[1], entry[2])


def bypassed_link(node: Json, slot: int) -> int | None:
    """The link that a bypassed node passes on: the same place first, then the first same type."""
    inputs = node.get("inputs") or []
    wanted = node["outputs"][slot]["type"]
    for candidate in [*inputs[slot : slot + 1], *inputs]:
        if candidate.get("link") is not None and candidate["type"] in (wanted, "*"):
            link: int = candidate["link"]
            return link
    return None

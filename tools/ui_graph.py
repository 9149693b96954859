"""One graph of a workflow file, the top or a subgraph's definition, while it is edited.

A source is (node id, output), or (INPUTS, number) for an input of the subgraph itself.
"""

from collections.abc import Iterator
from typing import Any

from .errors import DevError
from .ui_node import box
from .ui_prompt import BYPASSED, bypassed_link
from .ui_subgraph import INPUTS, OUTPUTS
from .ui_virtual import GETTERS, HAND_ON, handed_link, name_of, setter_of

Json = dict[str, Any]
Source = tuple[int, int]
KEYS = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")


class Level:
    """Its nodes by id, and its links as lists by id; `finished` writes both back."""

    def __init__(self, graph: Json) -> None:
        self.graph = graph
        self.nodes: dict[str, Json] = {str(node["id"]): node for node in graph["nodes"]}
        given = graph.get("links") or []
        self.as_objects = any(isinstance(link, dict) for link in given) or "inputNode" in graph
        self.had: dict[int, Json] = {link["id"]: link for link in given if isinstance(link, dict)}
        self.links: dict[int, list[Any]] = {link[0]: link for link in map(_as_list, given)}

    def finished(self, last_node: int, last_link: int) -> None:
        """Write nodes and links back, and the last numbers in use."""
        links = [self._kept_form(link) for link in self.links.values()]
        self.graph.update(nodes=list(self.nodes.values()), links=links)
        if "last_node_id" in self.graph:
            self.graph.update(last_node_id=last_node, last_link_id=last_link)
        if isinstance(self.graph.get("state"), dict):
            self.graph["state"].update(lastNodeId=last_node, lastLinkId=last_link)

    def _kept_form(self, link: list[Any]) -> Any:
        if not self.as_objects:
            return link
        return {**self.had.get(link[0], {}), **dict(zip(KEYS, link, strict=False))}

    # ---------------------------------------------------- where things are

    def boxes(self) -> Iterator[tuple[float, ...]]:
        """What nodes and the subgraph's two ends cover."""
        yield from map(box, self.nodes.values())
        for end in ("inputNode", "outputNode"):
            if (self.graph.get(end) or {}).get("bounding"):
                yield tuple(self.graph[end]["bounding"])

    def box_of(self, source: Source) -> tuple[float, ...]:
        if source[0] != INPUTS:
            return box(self.nodes[str(source[0])])
        return tuple((self.graph.get("inputNode") or {}).get("bounding") or (0, 0, 120, 60))

    # ---------------------------------------------------- links

    def origin(self, source: Source | None) -> Source | None:
        """The source that a prompt has there: reroutes and bypassed nodes only hand it on.

        For all getters of a value that is set in a graph around this one, the first of them.
        """
        while source is not None and source[0] != INPUTS:
            node = self.nodes[str(source[0])]
            if node["type"] in GETTERS:
                setter = setter_of(node, self.nodes.values())
                if setter is None:
                    return self._first_getter(node), 0
                node = setter
            if node["type"] in HAND_ON:
                link = handed_link(node)
            elif node.get("mode", 0) == BYPASSED:
                link = bypassed_link(node, source[1])
            else:
                return source
            source = self._start(link)
        return source

    def _first_getter(self, getter: Json) -> int:
        return next(int(node["id"]) for node in self.nodes.values()
                    if node["type"] in GETTERS and name_of(node) == name_of(getter))

    def fed(self, node: Json, name: str) -> Source | None:
        """The source whose link ends in an input now."""
        found = slot(node, name)
        return None if found is None else self._start(found.get("link"))

    def _start(self, link_id: int | None) -> Source | None:
        link = None if link_id is None else self.links.get(link_id)
        return None if link is None else (link[1], link[2])

    def port(self, source: Source) -> Json:
        """What the file says of a source: a node's output, or an input of the subgraph."""
        ports = (self.graph["inputs"] if source[0] == INPUTS
                 else self.nodes[str(source[0])].get("outputs") or [])
        if source[1] >= len(ports):
            raise DevError(f"Node {source[0]} of the workflow has no output {source[1]}: it has "
                           "changed since it ran.")
        found: Json = ports[source[1]]
        return found

    def outgoing(self, node: Json) -> list[list[Any]]:
        return [link for link in self.links.values() if str(link[1]) == str(node["id"])]

    def connect(self, link_id: int, source: Source, node: Json, taker: Json) -> None:
        """Link a source to an input (`taker`, one of the node's); what was in it is cut."""
        if taker.get("link") is not None:
            self.cut(taker["link"])
        self._add([link_id, *source, node["id"], node["inputs"].index(taker)], source)
        taker["link"] = link_id

    def connect_out(self, link_id: int, source: Source, number: int) -> None:
        """Link a source to an output of the subgraph."""
        self._add([link_id, *source, OUTPUTS, number], source)
        self.graph["outputs"][number]["linkIds"] = [link_id]

    def _add(self, link: list[Any], source: Source) -> None:
        port = self.port(source)
        self.links[link[0]] = [*link, port["type"]]
        links_of(port).append(link[0])

    def cut(self, link_id: int) -> None:
        link = self.links.pop(link_id, None)
        if link is None:
            return
        links = links_of(self.port((link[1], link[2])))
        if link_id in links:
            links.remove(link_id)
        self._forget(link_id)

    def _forget(self, link_id: int) -> None:
        """Take a link off the reroutes that the canvas draws on it."""
        extra = self.graph.get("extra") or {}
        if extra.get("linkExtensions"):
            extra["linkExtensions"] = [one for one in extra["linkExtensions"]
                                       if one.get("id") != link_id]
        for reroute in [*(extra.get("reroutes") or []), *(self.graph.get("reroutes") or [])]:
            if link_id in (reroute.get("linkIds") or []):
                reroute["linkIds"].remove(link_id)


def slot(node: Json, name: str) -> Json | None:
    """An input of a node by name."""
    return next((one for one in node.get("inputs") or [] if one["name"] == name), None)


def links_of(port: Json) -> list[int]:
    """The links that start at a source."""
    name = "linkIds" if "linkIds" in port else "links"
    if port.get(name) is None:
        port[name] = []
    links: list[int] = port[name]
    return links


def _as_list(link: Any) -> list[Any]:
    if isinstance(link, dict):
        return [*(link[key] for key in KEYS[:-1]), link.get("type", "*")]
    return list(link)

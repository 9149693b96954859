"""A workflow file with all its graphs: nodes by the ids that runs name them by, wires across edges.

What leads a wire into or out of a subgraph adds an input or output to it, unless there is one.
"""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from .errors import DevError
from .ui_graph import Level, Source
from .ui_subgraph import INPUTS, OUTPUTS, definitions

Json = dict[str, Any]


class File:
    """The top, and each subgraph's definition once, however many instances it has."""

    def __init__(self, workflow: Json) -> None:
        self.workflow, self.top = workflow, Level(workflow)
        self.inner = {key: Level(graph) for key, graph in definitions(workflow).items()}
        self.last_link = max([int(workflow.get("last_link_id") or 0),
                              *(key for level in self.levels for key in level.links)])

    @property
    def levels(self) -> list[Level]:
        return [self.top, *self.inner.values()]

    def finished(self) -> Json:
        for level in self.levels:
            level.finished(self.new_node_id() - 1, self.last_link)
        return self.workflow

    def new_node_id(self) -> int:
        """A number that no node has, in whichever graph."""
        return 1 + max([int(key) for level in self.levels for key in level.nodes] or [0])

    def new_link_id(self) -> int:
        self.last_link += 1
        return self.last_link

    def connect(self, level: Level, source: Source, node: Json, taker: Json) -> None:
        level.connect(self.new_link_id(), source, node, taker)

    # ---------------------------------------------------- nodes by the ids of a run

    def find(self, node_id: str) -> tuple[Level, Json]:
        """The node of an id such as "5:12", and the graph that it is in."""
        level: Level | None = self.top
        node: Json | None = None
        for part in node_id.split(":"):
            node = level.nodes.get(part) if level is not None else None
            if level is None or node is None:
                raise DevError(f"The workflow has no node {node_id}: it has changed since it ran.")
            found, level = level, self.inner.get(node["type"])
        assert node is not None
        return found, node

    def level_at(self, path: Sequence[str]) -> Level:
        """The graph inside of the instance at a path of ids."""
        return self.inner[self.find(":".join(path))[1]["type"]] if path else self.top

    def instances(self, level: Level) -> Iterator[tuple[Level, Json]]:
        """The nodes that stand for a subgraph, and the graph that each is in."""
        for outer in self.levels:
            for node in outer.nodes.values():
                if self.inner.get(node["type"]) is level:
                    yield outer, node

    # ---------------------------------------------------- wires across the edges of subgraphs

    def led(self, node_id: str, number: int, path: Sequence[str]) -> Source:
        """An output of a node as a source inside the subgraph at `path`."""
        home = path_of(node_id)
        shared = 0
        while shared < min(len(home), len(path)) and home[shared] == path[shared]:
            shared += 1
        source: Source = (self.find(node_id)[1]["id"], number)
        for depth in range(len(home), shared, -1):
            source = self._lead_out(home[:depth], source)
        for depth in range(shared, len(path)):
            source = self._lead_in(path[: depth + 1], source)
        return source

    def _lead_out(self, path: Sequence[str], source: Source) -> Source:
        outer, level = self.find(":".join(path))[1], self.level_at(path)
        ends = [link[4] for link in level.links.values()
                if (link[1], link[2]) == source and link[3] == OUTPUTS]
        number = ends[0] if ends else self._new_output(level, source)
        name = level.graph["outputs"][number]["name"]
        return outer["id"], [one["name"] for one in outer["outputs"]].index(name)

    def _new_output(self, level: Level, source: Source) -> int:
        port = _new_port(level.graph, "outputs", level.port(source))
        number = len(level.graph["outputs"]) - 1
        level.connect_out(self.new_link_id(), source, number)
        for _, node in self.instances(level):
            node.setdefault("outputs", []).append(
                {"name": port["name"], "type": port["type"], "links": []})
        return number

    def _lead_in(self, path: Sequence[str], source: Source) -> Source:
        outer, instance = self.find(":".join(path))
        level = self.level_at(path)
        names = [one["name"] for one in level.graph.get("inputs") or []]
        for one in instance.get("inputs") or []:
            if one["name"] in names and outer.fed(instance, one["name"]) == source:
                return INPUTS, names.index(one["name"])
        port = _new_port(level.graph, "inputs", outer.port(source))
        for where, node in self.instances(level):
            taker = {"name": port["name"], "type": port["type"], "link": None}
            node.setdefault("inputs", []).append(taker)
            if where is not outer:
                raise DevError(
                    f"Subgraph {level.graph.get('name')!r} is used in several graphs, which need "
                    "wires of their own; open the workflow in ComfyUI and apply the advice there.")
            self.connect(outer, source, node, taker)
        return INPUTS, len(level.graph["inputs"]) - 1


def path_of(node_id: str) -> list[str]:
    """The instances that a node is in, outermost first."""
    return node_id.split(":")[:-1]


def _new_port(graph: Json, side: str, like: Json) -> Json:
    """A further input or output of a subgraph, named as what it leads on."""
    ports = graph.setdefault(side, [])
    taken = {one["name"] for one in ports}
    base = str(like.get("name") or like["type"])
    names = [base, *(f"{base}_{number}" for number in range(1, len(taken) + 2))]
    name = next(one for one in names if one not in taken)
    new = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{graph['id']}/{side}/{name}"))
    port = {"id": new, "name": name, "type": like["type"], "linkIds": []}
    ports.append(port)
    return port

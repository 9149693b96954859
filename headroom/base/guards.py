"""Where OOM Guards are inserted in a prompt, and the prompt with them.

A guard is inserted on each output that brings a model to a node which computes with it, unless
every model there has passed a guard already. The same rule applies to a rerun, to Guard every run
and to advice. It includes text encoders, because on a smaller card another node may be the first
that fails; samplers with a GUIDER are guarded through the model from which it was made.
"""

import copy
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from .graph import Graph, Source, Wire
from .node_types import GUARD_CLASS, HANDED_ON, is_guardable, is_wildcard, kinds
from .prompt_node import is_link, names_a_model

INSERTED = "headroom-"  # prefix of the ids of inserted nodes
GUARD_INPUTS = {
    "free_other_models": True, "offload_weights": True, "split_batch": True, "tile_vae": True,
    "max_attempts": 8, "prefer": "same bits",
}
NO_MODELS = frozenset({"STRING", "INT", "FLOAT", "BOOLEAN", "COMBO", "CONDITIONING", "LATENT",
                       "IMAGE", "MASK"})
CARRIERS = frozenset({"GUIDER"})  # the node that makes one only wraps a model


def is_inserted(node_id: str | None) -> bool:
    """Return whether this node was inserted by us, not by the user.

    Loops and other expansions clone nodes under their own ids, such as "11.0.0." and our id.
    """
    return node_id is not None and INSERTED in node_id


class WithGuards(dict[str, Any]):
    """A prompt. By id it has the nodes that run; by items, values and as JSON those of its user.

    While ComfyUI runs a prompt it looks up each node by its id. Code that saves a prompt iterates
    over its items: Save Image for the picture, the server for its history and its queue.
    `stands_for`: for the id of each inserted node, the user's node and output that it replaces; the
    output is None if it has the same outputs. `dict(prompt)` is all that runs.
    """

    def __init__(self, nodes: Mapping[str, Any], stands_for: Mapping[str, tuple[str, Any]]) -> None:
        super().__init__(nodes)
        self.stands_for = dict(stands_for)

    def items(self) -> Any:
        return self._own().items()

    def values(self) -> Any:
        return self._own().values()

    def copy(self) -> "WithGuards":
        return WithGuards(dict(self), self.stands_for)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "WithGuards":
        return WithGuards(copy.deepcopy(dict(self), memo), self.stands_for)

    def _own(self) -> dict[str, Any]:
        ours = self.stands_for
        return {name: self._own_node(one) for name, one in dict(self).items() if name not in ours}

    def _own_node(self, node: Any) -> Any:
        """Return the node with the user's links, and with everything that was added to it."""
        inputs = node.get("inputs") if isinstance(node, dict) else None
        links = {name: self._own_link(value) for name, value in (inputs or {}).items()
                 if is_link(value) and value[0] in self.stands_for}
        return {**node, "inputs": {**node["inputs"], **links}} if links else node

    def _own_link(self, link: list[Any]) -> list[Any]:
        while link[0] in self.stands_for:
            source, output = self.stands_for[link[0]]
            link = [source, link[1] if output is None else output]
        return link


class Guarded(NamedTuple):
    """A prompt with its guards: the wires that go through each, by its id, and unguarded wires.

    An unguarded wire has a type that only its own pack knows, and may contain a model; or it brings
    a model that no guard takes, such as a CLIP_VISION, from its file to a node that computes with
    it; or it may bring an empty list, which a guard cannot pass on; or its node checks the types of
    its wires, and may refuse a guard's, which is any type.
    """

    prompt: WithGuards
    guards: dict[str, list[Wire]]
    left: list[Wire]


def guarded(graph: Graph, into: Collection[str] | None = None) -> Guarded:
    """Return a graph's prompt with guards on the wires to the nodes of `into`, or to all.

    The input does not change; guarded wires get no second guard. It takes a few microseconds for
    each node. If a wire leads to a cached and to an uncached node, only the latter gets a guard: a
    guard changes the cache key of everything after it.
    """
    prompt = graph.prompt
    before = prompt.stands_for if isinstance(prompt, WithGuards) else {}
    work = _Work(graph, set(graph.nodes if into is None else into))
    changed = {node_id: work.rewired(node_id) for node_id in graph.nodes if node_id in work.into}
    nodes = WithGuards({**dict(prompt), **changed, **work.new}, {**before, **work.stands_for})
    return Guarded(nodes, work.guards, work.left)


class _Work:
    """One pass over one prompt."""

    def __init__(self, graph: Graph, into: set[str]) -> None:
        self.into = into
        self.new: dict[str, Any] = {}
        self.stands_for: dict[str, tuple[str, Any]] = {}
        self.guards: dict[str, list[Wire]] = {}
        self.left: list[Wire] = []
        self._graph = graph
        self._made: dict[Source, str] = {}
        self._copies: dict[str, str] = {}

    def rewired(self, node_id: str) -> Any:
        """Return the node with its inputs from guards; the same object if nothing changes."""
        node = self._graph.nodes[node_id]
        if node["class_type"] == GUARD_CLASS:
            return node
        found = {wire.input: self._through(wire) for wire in self._graph.wires(node_id)}
        new = {name: link for name, link in found.items() if link is not None}
        return {**node, "inputs": {**node["inputs"], **new}} if new else node

    def _through(self, wire: Wire) -> list[Any] | None:
        """Return the link that replaces a wire; None if it stays."""
        if is_guardable(wire.given, wire.taken):
            taker = self._graph.node_type(wire.taker)
            if (taker is None or not taker.computes_with(wire.type)
                    or self._graph.is_guarded(wire)):
                return None
            if not (taker.checks_types or taker.takes_lists and self._gives_list(wire)):
                return self._guard(wire)
            self.left.append(wire)
        elif wire.given in CARRIERS and wire.giver not in self.into:
            return self._copied(wire)
        elif self._may_bring_model(wire):
            self.left.append(wire)
        return None

    def _may_bring_model(self, wire: Wire) -> bool:
        if is_wildcard(wire.given) or kinds(wire.given) <= HANDED_ON | NO_MODELS:
            return False
        if not self._graph.registry.is_core(wire.given):
            return True
        taker = self._graph.node_type(wire.taker)  # else a guard goes on the model that it patches
        return (taker is not None and taker.uses_models
                and names_a_model(self._graph.nodes[wire.giver]))

    def _gives_list(self, wire: Wire) -> bool:
        giver = self._graph.node_type(wire.giver)
        return giver is not None and giver.gives_list(wire.output)

    def _guard(self, wire: Wire) -> list[Any]:
        if wire.source not in self._made:
            new = self._free_id(f"guard-{wire.giver}-{wire.output}")
            self._made[wire.source] = new
            self.stands_for[new] = wire.source
            self.new[new] = {
                "class_type": GUARD_CLASS, "_meta": {"title": "OOM Guard"},
                "inputs": {"model": list(wire.source), **GUARD_INPUTS},
            }
        new = self._made[wire.source]
        self.guards.setdefault(new, []).append(wire)
        return [new, 0]

    def _copied(self, wire: Wire) -> list[Any] | None:
        """Return a link to a copy of the carrier's maker that wraps the guarded model.

        The maker itself stays, for the nodes that use its own carrier.
        """
        maker = wire.giver
        if maker not in self._copies:
            made = self.rewired(maker)
            if made is self._graph.nodes[maker]:
                return None
            self._copies[maker] = new = self._free_id(f"copy-{maker}")
            self.new[new] = made
            self.stands_for[new] = (maker, None)
        return [self._copies[maker], wire.output]

    def _free_id(self, wanted: str) -> str:
        """Return a new id of ours; without a colon, which marks nodes of subgraphs."""
        name = INSERTED + wanted.replace(":", "_")
        while name in self._graph.nodes or name in self.new:
            name += "_"
        return name

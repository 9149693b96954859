"""A prompt as a graph: its wires, the nodes above and below a node, its models and files.

Only this module knows how nodes are connected. Where guards are inserted is in guards.py.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from .node_types import GUARD_CLASS, NO_NODES, NodeType, Registry, is_wildcard, kinds
from .prompt_node import Node, constants, is_link, is_node, strings

Prompt = Mapping[str, Node]  # in API format, by node id
Source = tuple[str, int]  # a node and the number of an output

MAX_NAME = 1024
# The wire type on which ComfyUI passes each kind of model that it loads.
TYPE_OF_KIND = {
    "diffusion model": "MODEL", "text encoder": "CLIP", "VAE": "VAE", "ControlNet": "CONTROL_NET",
    "CLIP vision": "CLIP_VISION", "upscale model": "UPSCALE_MODEL",
}
MODELS = frozenset(TYPE_OF_KIND.values())
CLONED = frozenset({"MODEL", "CLIP"})  # nodes change only clones, which stay guarded
# Types of ComfyUI's own that contain other models: a conditioning contains its ControlNets.
CARRIED = {"CONDITIONING": frozenset({"CONTROL_NET"}), "GUIDER": MODELS}


class Wire(NamedTuple):
    """A connection. `given`: the type that its source declares, `taken`: that of its target."""

    taker: str
    input: str
    giver: str
    output: int
    given: str
    taken: str

    @property
    def source(self) -> Source:
        return self.giver, self.output

    @property
    def type(self) -> str:
        """The type that its target declares; if that is any type, the one of its source."""
        return self.given if is_wildcard(self.taken) else self.taken


class Graph:
    """An API prompt, or the DynamicPrompt of one that runs, with the node registry.

    Invalid nodes are left out: ComfyUI does not check nodes that no output needs. Without a
    registry every wire is of any type.
    """

    def __init__(self, prompt: Any, registry: Registry = NO_NODES) -> None:
        if hasattr(prompt, "get_node"):
            prompt = {node_id: prompt.get_node(node_id) for node_id in prompt.all_node_ids()}
        self.prompt = prompt
        self.nodes: dict[str, Node] = {name: node for name, node in dict(prompt).items()
                                       if is_node(node)}
        self.registry = registry
        self._types: dict[str, NodeType | None] = {}
        self._wires: dict[str, list[Wire]] = {}
        self._known: dict[tuple[str, bool], dict[str, frozenset[str]]] = {}

    # ---------------------------------------------------- nodes and wires

    def node_type(self, node_id: str) -> NodeType | None:
        class_type = self.nodes[node_id]["class_type"]
        if class_type not in self._types:
            self._types[class_type] = self.registry.node_type(class_type)
        return self._types[class_type]

    def wires(self, node_id: str) -> list[Wire]:
        """Return the connected inputs of a node, if the connected node exists."""
        if node_id not in self._wires:
            taker = self.node_type(node_id)
            self._wires[node_id] = [
                Wire(node_id, name, value[0], int(value[1]),
                     "*" if (giver := self.node_type(value[0])) is None else giver.output(value[1]),
                     "*" if taker is None else taker.input(name))
                for name, value in self.nodes[node_id]["inputs"].items()
                if is_link(value) and value[0] in self.nodes
            ]
        return self._wires[node_id]

    @cached_property
    def _takers(self) -> dict[str, list[Wire]]:
        found: dict[str, list[Wire]] = {}
        for node_id in self.nodes:
            for wire in self.wires(node_id):
                found.setdefault(wire.giver, []).append(wire)
        return found

    def takers(self, giver: str, output: int) -> list[Wire]:
        return [wire for wire in self._takers.get(giver, ()) if wire.output == output]

    def above(self, *starts: str) -> list[str]:
        """Return the nodes and all that they depend on, each after the nodes that feed it."""
        done: dict[str, None] = {}
        entered: set[str] = set()
        pending = [(start, False) for start in reversed(starts) if start in self.nodes]
        while pending:
            current, inputs_done = pending.pop()
            if inputs_done:
                done[current] = None
            elif current not in entered:
                entered.add(current)
                pending.append((current, True))
                pending += [(wire.giver, False) for wire in reversed(self.wires(current))]
        return list(done)

    def below(self, *starts: str) -> set[str]:
        found: set[str] = set()
        pending = [start for start in starts if start in self.nodes]
        while pending:
            current = pending.pop()
            if current not in found:
                found.add(current)
                pending += [wire.taker for wire in self._takers.get(current, ())]
        return found

    # ---------------------------------------------------- models

    def loaders(self, source: Source, kind: str) -> frozenset[str]:
        """Return the nodes that load the models of this type that come out of an output."""
        return self._loaders(kind)[source[0]]

    def is_guarded(self, wire: Wire) -> bool:
        """Return whether every model that comes through a wire has passed a guard."""
        return not any(self._loaders(kind, is_bare=True)[wire.giver] for kind in kinds(wire.type))

    def uses(self, node_id: str) -> frozenset[tuple[str, str]]:
        """Return (type, loader) of every model that a node may compute with."""
        return self._used[node_id]

    def _loaders(self, kind: str, is_bare: bool = False) -> dict[str, frozenset[str]]:
        """Return by node what loads the models of a type that come out of it.

        is_bare: only those whose model has passed no guard.
        """
        if (kind, is_bare) in self._known:
            return self._known[kind, is_bare]
        found = self._known[kind, is_bare] = {}
        for node_id in self.above(*self.nodes):
            wires = self.wires(node_id)
            above = [wire.giver for wire in wires
                     if kind in kinds(wire.type) or is_wildcard(wire.type)]
            is_maker = kind not in CLONED and any(kind in kinds(wire.taken) for wire in wires)
            if is_bare and self.nodes[node_id]["class_type"] == GUARD_CLASS:
                found[node_id] = frozenset()
            elif not above or (is_bare and is_maker):
                found[node_id] = frozenset({node_id})
            else:
                found[node_id] = frozenset().union(*(found.get(one, ()) for one in above))
        return found

    @cached_property
    def _used(self) -> dict[str, frozenset[tuple[str, str]]]:
        """What each node receives on wires of models, and inside of types that contain models."""
        found: dict[str, frozenset[tuple[str, str]]] = {}
        for node_id in self.above(*self.nodes):
            own: set[tuple[str, str]] = set()
            for wire in self.wires(node_id):
                types = kinds(wire.type)
                own |= {(kind, one) for kind in types & MODELS
                        for one in self.loaders(wire.source, kind)}
                carried = self._carried(types)
                own |= {pair for pair in found.get(wire.giver, ()) if pair[0] in carried}
            found[node_id] = frozenset(own)
        return found

    def _carried(self, types: frozenset[str]) -> frozenset[str]:
        """Return the types that may be inside: for an unknown type, all of them."""
        found: frozenset[str] = frozenset()
        for kind in types - MODELS:
            known = not is_wildcard(kind) and self.registry.is_core(kind)
            found |= CARRIED.get(kind, frozenset() if known else MODELS)
        return found

    # ---------------------------------------------------- files

    def files(self, nodes: Iterable[str] | None = None) -> list[Path]:
        """Return the files that widgets of these nodes (None: all nodes) name."""
        chosen = self.nodes.values() if nodes is None else [self.nodes[one] for one in nodes]
        names = [name for node in chosen for name in strings(constants(node))]
        return list(dict.fromkeys(path for name in names for path in self.files_named(name)))

    def files_named(self, name: str) -> list[Path]:
        """Return the files that one string names; none for an invalid name."""
        cannot = not name.strip(" ./\\") or len(name) > MAX_NAME or "\n" in name or "\0" in name
        return [] if cannot else self.registry.files_named(name)

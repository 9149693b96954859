"""Which models a node of a prompt uses, and which loaders they come from, by the types of wires."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..base.node_types import NodeType, Registry, is_wildcard, kinds
from ..base.prompt_graph import is_link, strings

Prompt = Mapping[str, Mapping[str, Any]]
Link = tuple[str, int]

# The wire on which ComfyUI hands on each kind of model that it loads.
TYPE_OF_KIND = {
    "diffusion model": "MODEL", "text encoder": "CLIP", "VAE": "VAE", "ControlNet": "CONTROL_NET",
    "CLIP vision": "CLIP_VISION", "upscale model": "UPSCALE_MODEL",
}
MODELS = frozenset(TYPE_OF_KIND.values())
# Types of ComfyUI's own that carry other models along: a conditioning its ControlNets.
CARRIED = {"CONDITIONING": frozenset({"CONTROL_NET"}), "GUIDER": MODELS}


class Wires:
    """The wires of one prompt; the registry knows the types of its nodes."""

    def __init__(self, prompt: Prompt, registry: Registry) -> None:
        self.prompt = prompt
        self._registry = registry
        self._types: dict[str, NodeType | None] = {}
        self._uses: dict[str, frozenset[tuple[str, str]]] = {}

    def node_type(self, node_id: str) -> NodeType | None:
        class_type = str(self.prompt[node_id].get("class_type"))
        if class_type not in self._types:
            self._types[class_type] = self._registry.node_type(class_type)
        return self._types[class_type]

    def links(self, node_id: str) -> Iterator[tuple[str, Link]]:
        """Yield (input, (node, output)) of the connected inputs of a node."""
        for name, value in self.prompt[node_id]["inputs"].items():
            if is_link(value) and value[0] in self.prompt:
                yield name, (value[0], int(value[1]))

    def takers(self, link: Link) -> list[list[str]]:
        """Return [node, input] of everything that an output feeds."""
        return [[node_id, name] for node_id in self.prompt
                for name, source in self.links(node_id) if source == link]

    def type_of(self, node_id: str, name: str, link: Link) -> str:
        """Return the type of a wire: what its taker asks for, else what its giver declares."""
        taker, giver = self.node_type(node_id), self.node_type(link[0])
        taken = "*" if taker is None else taker.input(name)
        if not is_wildcard(taken):
            return taken
        return "*" if giver is None else giver.output(link[1])

    def uses(self, node_id: str) -> frozenset[tuple[str, str]]:
        """Return (type, loader) of every model that a node may compute with."""
        if node_id not in self._uses:
            self._uses[node_id] = frozenset(self._used(node_id, MODELS, set()))
        return self._uses[node_id]

    def _used(
        self, node_id: str, wanted: frozenset[str], seen: set[str]
    ) -> Iterator[tuple[str, str]]:
        if node_id in seen:
            return
        seen.add(node_id)
        for name, link in self.links(node_id):
            types = kinds(self.type_of(node_id, name, link))
            for kind in types & wanted:
                yield from ((kind, loader) for loader in self.loaders(link, kind))
            carried = self._carried(types) & wanted
            if carried:
                yield from self._used(link[0], carried, seen)

    def _carried(self, types: frozenset[str]) -> frozenset[str]:
        """Return the types that may travel inside: of a type that nobody knows, all of them."""
        found: frozenset[str] = frozenset()
        for kind in types - MODELS:
            known = not is_wildcard(kind) and self._registry.is_core(kind)
            found |= CARRIED.get(kind, frozenset() if known else MODELS)
        return found

    def loaders(self, link: Link, kind: str) -> frozenset[str]:
        """Return the nodes in which models of this type begin that come through a wire."""
        return frozenset(node for node in self.path(link, kind) if not self._above(node, kind))

    def passes(self, link: Link, kind: str, class_type: str) -> bool:
        """Return whether models on a wire have come through a node of a class."""
        return any(self.prompt[node].get("class_type") == class_type
                   for node in self.path(link, kind))

    def path(self, link: Link, kind: str) -> frozenset[str]:
        """Return the nodes that a model of this type comes through, its loaders included."""
        pending, seen = [link[0]], set()
        while pending:
            node_id = pending.pop()
            if node_id not in seen:
                seen.add(node_id)
                pending += self._above(node_id, kind)
        return frozenset(seen)

    def _above(self, node_id: str, kind: str) -> list[str]:
        return [source[0] for name, source in self.links(node_id)
                if self._hands_on(node_id, name, source, kind)]

    def _hands_on(self, node_id: str, name: str, link: Link, kind: str) -> bool:
        type_name = self.type_of(node_id, name, link)
        return kind in kinds(type_name) or is_wildcard(type_name)

    def above(self, node_id: str) -> frozenset[str]:
        """Return a node and all that it depends on."""
        found: set[str] = set()
        pending = [node_id]
        while pending:
            current = pending.pop()
            if current not in found:
                found.add(current)
                pending += [link[0] for _, link in self.links(current)]
        return frozenset(found)

    def naming(self, file: str) -> frozenset[str]:
        """Return the nodes with one of these file names ("a + b") among their values."""
        wanted = set(file.split(" + "))
        return frozenset(
            node_id for node_id, node in self.prompt.items()
            if any(text.replace("\\", "/").rpartition("/")[2] in wanted
                   for value in node["inputs"].values() if not is_link(value)
                   for text in strings(value))
        )

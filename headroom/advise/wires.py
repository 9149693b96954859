"""Which models a node of a prompt uses, and which loaders they come from, by the types of wires."""

from collections.abc import Callable, Sequence
from typing import Any

from ..base.node_types import NodeType, Registry, is_wildcard, kinds
from ..base.prompt_graph import Prompt, is_link, strings

Link = tuple[str, int]
Parts = tuple[frozenset[Any], Sequence[Any]]  # what a key adds itself, and the keys that add theirs

# The wire on which ComfyUI hands on each kind of model that it loads.
TYPE_OF_KIND = {
    "diffusion model": "MODEL", "text encoder": "CLIP", "VAE": "VAE", "ControlNet": "CONTROL_NET",
    "CLIP vision": "CLIP_VISION", "upscale model": "UPSCALE_MODEL",
}
MODELS = frozenset(TYPE_OF_KIND.values())
# Types of ComfyUI's own that carry other models along: a conditioning its ControlNets.
CARRIED = {"CONDITIONING": frozenset({"CONTROL_NET"}), "GUIDER": MODELS}


def settled(
    start: Any, known: dict[Any, frozenset[Any]], parts: Callable[[Any], Parts]
) -> frozenset[Any]:
    """Return what a key and all below it add; each is looked at once, without recursion."""
    pending, opened = [start], set()
    while pending:
        key = pending[-1]
        if key in known:
            pending.pop()
            continue
        own, below = parts(key)
        if key in opened:
            known[key] = own.union(*(known.get(one, frozenset()) for one in below))
        else:
            opened.add(key)
            pending += [one for one in below if one not in known and one not in opened]
    return known[start]


class Wires:
    """The wires of one prompt; the registry knows the types of its nodes."""

    def __init__(self, prompt: Prompt, registry: Registry) -> None:
        self.prompt = prompt
        self._registry = registry
        self._types: dict[str, NodeType | None] = {}
        self._links: dict[str, list[tuple[str, Link]]] = {}
        self._loaders: dict[Any, frozenset[Any]] = {}
        self._passed: dict[Any, frozenset[Any]] = {}
        self._uses: dict[Any, frozenset[Any]] = {}

    def node_type(self, node_id: str) -> NodeType | None:
        class_type = str(self.prompt[node_id].get("class_type"))
        if class_type not in self._types:
            self._types[class_type] = self._registry.node_type(class_type)
        return self._types[class_type]

    def links(self, node_id: str) -> list[tuple[str, Link]]:
        """Return (input, (node, output)) of the connected inputs of a node."""
        if node_id not in self._links:
            self._links[node_id] = [
                (name, (value[0], int(value[1])))
                for name, value in self.prompt[node_id]["inputs"].items()
                if is_link(value) and value[0] in self.prompt
            ]
        return self._links[node_id]

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
        found: frozenset[tuple[str, str]] = settled((node_id, MODELS), self._uses, self._used)
        return found

    def _used(self, key: tuple[str, frozenset[str]]) -> Parts:
        """What comes in by wires of models, and inside of what may carry models along."""
        node_id, wanted = key
        own, inside = set(), []
        for name, link in self.links(node_id):
            types = kinds(self.type_of(node_id, name, link))
            own |= {(kind, one) for kind in types & wanted for one in self.loaders(link, kind)}
            carried = self._carried(types) & wanted
            if carried:
                inside.append((link[0], carried))
        return frozenset(own), inside

    def _carried(self, types: frozenset[str]) -> frozenset[str]:
        """Return the types that may travel inside: of a type that nobody knows, all of them."""
        found: frozenset[str] = frozenset()
        for kind in types - MODELS:
            known = not is_wildcard(kind) and self._registry.is_core(kind)
            found |= CARRIED.get(kind, frozenset() if known else MODELS)
        return found

    def loaders(self, link: Link, kind: str) -> frozenset[str]:
        """Return the nodes in which models of this type begin that come through a wire."""
        found: frozenset[str] = settled((link[0], kind), self._loaders, self._begun)
        return found

    def _begun(self, key: tuple[str, str]) -> Parts:
        above = self._above(*key)
        return frozenset() if above else frozenset({key[0]}), [(one, key[1]) for one in above]

    def passes(self, link: Link, kind: str, class_type: str) -> bool:
        """Return whether models on a wire have come through a node of a class."""
        return class_type in settled((link[0], kind), self._passed, self._handed)

    def _handed(self, key: tuple[str, str]) -> Parts:
        classes = frozenset({str(self.prompt[key[0]].get("class_type"))})
        return classes, [(one, key[1]) for one in self._above(*key)]

    def _above(self, node_id: str, kind: str) -> list[str]:
        return [source[0] for name, source in self.links(node_id)
                if self._hands_on(node_id, name, source, kind)]

    def _hands_on(self, node_id: str, name: str, link: Link, kind: str) -> bool:
        type_name = self.type_of(node_id, name, link)
        return kind in kinds(type_name) or is_wildcard(type_name)

    def above(self, node_id: str) -> frozenset[str]:
        """Return a node and all that it depends on."""
        return self._reached(node_id, lambda one: [link[0] for _, link in self.links(one)])

    def behind(self, node_id: str) -> frozenset[str]:
        """Return a node and all that depends on it."""
        takers: dict[str, list[str]] = {}
        for taker in self.prompt:
            for _, link in self.links(taker):
                takers.setdefault(link[0], []).append(taker)
        return self._reached(node_id, lambda one: takers.get(one, []))

    def twins(self, node_id: str) -> frozenset[str]:
        """Return a node and all that ask for the very same: ComfyUI runs one of them for all."""
        class_type, inputs = self.prompt[node_id]["class_type"], self.prompt[node_id]["inputs"]
        return frozenset(other for other, node in self.prompt.items()
                         if node["class_type"] == class_type and node["inputs"] == inputs)

    def _reached(self, start: str, ways: Callable[[str], list[str]]) -> frozenset[str]:
        found: set[str] = set()
        pending = [start]
        while pending:
            current = pending.pop()
            if current not in found:
                found.add(current)
                pending += ways(current)
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

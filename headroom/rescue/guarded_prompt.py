"""Put OOM Guards into an API prompt: one for each output that brings a node a model to use.

A pure function of the prompt and of the node registry. The user's nodes keep their ids, and what
is not changed is the very same node. Between what ComfyUI has computed and what it has not, a guard
goes on the wires of the latter only: a guard changes the cache key of everything behind it.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..base.node_types import GUARD_CLASS, NodeType, Registry, is_guardable, is_wildcard
from ..base.own_prompt import WithGuards
from ..base.prompt_graph import INSERTED, Prompt, is_link

Link = tuple[str, Any]

OPTIONS = {
    "free_other_models": True, "offload_weights": True, "split_batch": True, "tile_vae": True,
    "max_attempts": 8,
}
# Types that hold a model which their taker runs; the node that makes one only wraps it up.
CARRIERS = frozenset({"GUIDER"})


class Left(NamedTuple):
    """A wire that may bring a model unseen, in a type that only its own pack knows."""

    node_id: str
    input: str
    type: str


@dataclass(frozen=True)
class GuardedPrompt:
    """The prompt with its guards. `inserted` are the new nodes, `left` what cannot be guarded."""

    prompt: WithGuards
    inserted: tuple[str, ...]
    left: tuple[Left, ...]


def guard_prompt(
    prompt: Prompt, registry: Registry, into: Collection[str] | None = None
) -> GuardedPrompt:
    """Return `prompt` with an OOM Guard on every wire that brings a model to a node of `into`.

    MODEL, CLIP, VAE and UPSCALE_MODEL; `into` None means every node. The prompt that
    comes in is not changed; guarding twice is guarding once. Classes that are not installed
    count as taking and giving anything. A few microseconds a node.
    """
    before = prompt.stands_for if isinstance(prompt, WithGuards) else {}
    nodes = dict(prompt)
    work = _Work(nodes, registry, set(nodes if into is None else into))
    changed = {node_id: work.rewired(node_id) for node_id in nodes if node_id in work.into}
    return GuardedPrompt(
        WithGuards({**nodes, **changed, **work.new}, {**before, **work.stands_for}),
        tuple(work.new), tuple(work.left),
    )


class _Work:
    """One pass over one prompt."""

    def __init__(self, prompt: Prompt, registry: Registry, into: set[str]) -> None:
        self._prompt = prompt
        self._registry = registry
        self.into = into
        self.new: dict[str, Any] = {}
        self.left: list[Left] = []
        self.stands_for: dict[str, tuple[str, Any]] = {}
        self._guards: dict[Link, str] = {}
        self._copies: dict[str, str] = {}

    def rewired(self, node_id: str) -> Mapping[str, Any]:
        """Return the node with its inputs from guards; the same one where nothing is to change."""
        node = self._prompt[node_id]
        if node.get("class_type") == GUARD_CLASS:
            return node
        taker = self._type(node_id)
        found = {name: self._through(node_id, name, link, taker) for name, link in _links(node)}
        new = {name: link for name, link in found.items() if link is not None}
        return {**node, "inputs": {**node["inputs"], **new}} if new else node

    def _through(
        self, node_id: str, name: str, link: Link, taker: NodeType | None
    ) -> list[Any] | None:
        """Return the link that takes the place of `link`, None where it stays."""
        given = self._given(link)
        taken = "*" if taker is None else taker.input(name)
        if is_guardable(given, taken):
            if taker is None or not taker.uses_models:
                return None
            if not (taker.takes_lists and self._gives_list(link)):
                return self._guarded(link)
            self.left.append(Left(node_id, name, given))  # a guard cannot hand on an empty list
            return None
        if given in CARRIERS and link[0] not in self.into:
            return self._copied(link)
        if not is_wildcard(given) and not self._registry.is_core(given):
            self.left.append(Left(node_id, name, given))
        return None

    def _guarded(self, link: Link) -> list[Any] | None:
        source = self._prompt.get(link[0], {})
        if source.get("class_type") == GUARD_CLASS:
            return None
        if link not in self._guards:
            new = self._free_id(f"guard-{link[0]}-{link[1]}")
            self._guards[link] = new
            self.stands_for[new] = link
            self.new[new] = _node(GUARD_CLASS, "OOM Guard", {"model": list(link), **OPTIONS})
        return [self._guards[link], 0]

    def _copied(self, link: Link) -> list[Any] | None:
        """Return a link to a copy of a carrier's maker that wraps up the guarded model.

        The maker itself stays as it is, for those who had taken its carrier before.
        """
        maker = link[0]
        if maker not in self._copies:
            copy = self.rewired(maker) if maker in self._prompt else None
            if copy is None or copy is self._prompt[maker]:
                return None
            self._copies[maker] = new = self._free_id(f"copy-{maker}")
            self.new[new] = copy
            self.stands_for[new] = (maker, None)
        return [self._copies[maker], link[1]]

    def _given(self, link: Link) -> str:
        source = self._type(link[0])
        return "*" if source is None else source.output(link[1])

    def _gives_list(self, link: Link) -> bool:
        source = self._type(link[0])
        return source is not None and source.gives_list(link[1])

    def _type(self, node_id: str) -> NodeType | None:
        class_type = self._prompt.get(node_id, {}).get("class_type")
        return self._registry.node_type(class_type) if isinstance(class_type, str) else None

    def _free_id(self, wanted: str) -> str:
        """Return an id of ours that nobody has; without the colon by which subgraphs are told."""
        name = INSERTED + wanted.replace(":", "_")
        while name in self._prompt or name in self.new:
            name += "_"
        return name


def _links(node: Mapping[str, Any]) -> Iterator[tuple[str, Link]]:
    for name, value in node["inputs"].items():
        if is_link(value):
            yield name, (value[0], value[1])


def _node(class_type: str, title: str, inputs: dict[str, Any]) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs, "_meta": {"title": title}}

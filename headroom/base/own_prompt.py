"""A prompt with guards in it, which shows its user's own to whoever reads it as a whole.

While ComfyUI runs a prompt it looks up each node by its id. Who writes a prompt down walks over its
items: Save Image for the picture, the server for its history and the list of its queue.
"""

import copy
from collections.abc import Mapping
from typing import Any

from .prompt_graph import is_link


class WithGuards(dict[str, Any]):
    """By id: the nodes that run. By items, values, and as JSON: the nodes that the user made.

    `stands_for`: by the id of each node that we put in, the user's node, and its output, in whose
    place it is; the output None where it has the same outputs. `dict(prompt)` is all that runs.
    """

    def __init__(
        self, nodes: Mapping[str, Any], stands_for: Mapping[str, tuple[str, Any]]
    ) -> None:
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
        return {node_id: self._own_node(node) for node_id, node in dict(self).items()
                if node_id not in self.stands_for}

    def _own_node(self, node: Any) -> Any:
        """Return the node with the links of its user, and with all that was written into it."""
        links = {name: self._own_link(value) for name, value in node["inputs"].items()
                 if is_link(value) and value[0] in self.stands_for}
        return {**node, "inputs": {**node["inputs"], **links}} if links else node

    def _own_link(self, link: list[Any]) -> list[Any]:
        while link[0] in self.stands_for:
            source, output = self.stands_for[link[0]]
            link = [source, link[1] if output is None else output]
        return link

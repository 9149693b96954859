"""What the running prompt knows about its nodes, those created by expansion included."""

import inspect
from typing import Any

from execution import nodes as core_nodes

from ..base.prompt_node import title_given
from .types import NodeLabel


class PromptNodes:
    """The nodes of a prompt, by ComfyUI's `DynamicPrompt`."""

    def __init__(self, dynamic_prompt: Any) -> None:
        self._prompt = dynamic_prompt

    def has(self, node_id: str) -> bool:
        return bool(self._prompt.has_node(node_id))

    def describe(self, node_id: str) -> NodeLabel:
        """Return the facts about a node; its title is the user's, else its display name."""
        if not self.has(node_id):
            return NodeLabel(node_id, "", node_id, node_id)
        node = self._prompt.get_node(node_id)
        class_type = node["class_type"]
        names = core_nodes.NODE_DISPLAY_NAME_MAPPINGS
        return NodeLabel(
            node_id=node_id,
            class_type=class_type,
            title=title_given(node) or str(names.get(class_type, class_type)),
            display_node_id=self._prompt.get_display_node_id(node_id),
            parent_node_id=self._prompt.get_parent_node_id(node_id),
            is_async=_is_async(class_type),
        )


def _is_async(class_type: str) -> bool:
    """Return whether the node's function is a coroutine, so that others may run meanwhile."""
    found = core_nodes.NODE_CLASS_MAPPINGS.get(class_type)
    return inspect.iscoroutinefunction(getattr(found, str(getattr(found, "FUNCTION", "")), None))

"""What the running prompt knows about its nodes, those created by expansion included."""

import inspect
from typing import Any

from execution import nodes as core_nodes

from ..base.prompt_node import title_given
from .types import NodeLabel


def label_of(dynamic_prompt: Any, node_id: str) -> NodeLabel:
    """Return the names of a node, by ComfyUI's `DynamicPrompt`; its class is "" if it has none.

    The title is the user's, else the display name.
    """
    if not dynamic_prompt.has_node(node_id):
        return NodeLabel(node_id, "", node_id, node_id)
    node = dynamic_prompt.get_node(node_id)
    class_type = node["class_type"]
    names = core_nodes.NODE_DISPLAY_NAME_MAPPINGS
    return NodeLabel(
        node_id=node_id,
        class_type=class_type,
        title=title_given(node) or str(names.get(class_type, class_type)),
        display_node_id=dynamic_prompt.get_display_node_id(node_id),
        parent_node_id=dynamic_prompt.get_parent_node_id(node_id),
        is_async=_is_async(class_type),
    )


def _is_async(class_type: str) -> bool:
    """Return whether the node's function is a coroutine, so that others may run meanwhile."""
    found = core_nodes.NODE_CLASS_MAPPINGS.get(class_type)
    return inspect.iscoroutinefunction(getattr(found, str(getattr(found, "FUNCTION", "")), None))

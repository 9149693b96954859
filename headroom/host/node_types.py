"""The node registry: what the classes of this server take and give."""

import importlib
from functools import lru_cache
from typing import Any

from ..base.node_types import NodeType, from_object_info

# ComfyUI's module, not the folder of this pack that has the same name.
core_nodes: Any = importlib.import_module("nodes")

CORE_MODULES = ("nodes", "comfy_extras", "comfy_api_nodes")


class HostRegistry:
    """ComfyUI's node classes, V1 and V3 alike, as a prompt names them."""

    def node_type(self, class_type: str) -> NodeType | None:
        """Return the types of a class, None for one that is not installed."""
        found = core_nodes.NODE_CLASS_MAPPINGS.get(class_type)
        if found is None:
            return None
        return from_object_info({
            "input": found.INPUT_TYPES(), "output": _outputs(found),
            "output_node": getattr(found, "OUTPUT_NODE", False),
            "output_is_list": getattr(found, "OUTPUT_IS_LIST", None),
            "is_input_list": getattr(found, "INPUT_IS_LIST", False),
        })

    def is_core(self, type_name: str) -> bool:
        """Return whether a node of ComfyUI's own gives this type."""
        return type_name in _core_types()


@lru_cache(maxsize=1)
def _core_types() -> frozenset[str]:
    """Return the types that ComfyUI's own nodes give; all of them are there once it serves."""
    classes = list(core_nodes.NODE_CLASS_MAPPINGS.values())
    info = [{"output": _outputs(found)} for found in classes if _is_core(found)]
    return frozenset(kind for one in info for kind in from_object_info(one).outputs)


def _outputs(node_class: Any) -> Any:
    return getattr(node_class, "RETURN_TYPES", None) or ()


def _is_core(node_class: Any) -> bool:
    module = getattr(node_class, "RELATIVE_PYTHON_MODULE", None) or node_class.__module__
    return str(module).split(".")[0] in CORE_MODULES

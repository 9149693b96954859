"""The node registry: inputs and outputs of this server's node classes, and the files they name."""

import importlib
import inspect
from functools import lru_cache
from pathlib import Path
from typing import Any

import folder_paths
from comfy_api.internal import first_real_override
from server import PromptServer

from ..base.file_identity import Code, code_of
from ..base.node_types import ClassInfo, NodeType, Registry, from_object_info
from . import files as host_files

# ComfyUI's module `nodes`, not the folder of this pack with the same name.
core_nodes: Any = importlib.import_module("nodes")

CORE_MODULES = ("nodes", "comfy_extras", "comfy_api_nodes")


class HostRegistry(Registry):
    """ComfyUI's node classes, V1 and V3 alike, by their name in prompts, and its models folders."""

    def node_type(self, class_type: str) -> NodeType | None:
        found = core_nodes.NODE_CLASS_MAPPINGS.get(class_type)
        if found is None:
            return None
        outputs = _outputs(found)  # for this a V3 class makes its schema
        return from_object_info({
            "input": found.INPUT_TYPES(), "output": outputs,
            "output_node": getattr(found, "OUTPUT_NODE", False),
            "output_is_list": getattr(found, "OUTPUT_IS_LIST", None),
            "is_input_list": getattr(found, "INPUT_IS_LIST", False),
            "api_node": getattr(found, "API_NODE", False),
            "checks_types": _checks_types(found),
            "loop_boundary": getattr(getattr(found, "SCHEMA", None), "loop_boundary", None),
        })

    def class_info(self, class_type: str) -> ClassInfo | None:
        found = core_nodes.NODE_CLASS_MAPPINGS.get(class_type)
        if found is None:
            return None
        is_core = _is_core(found)
        code = Code("", False) if is_core else _code_at(_pack_folder(found))
        hidden = found.INPUT_TYPES().get("hidden", {})
        return ClassInfo(
            code=code.digest,
            is_core=is_core,
            own_changes=_decides_changes(found),
            wants_id="UNIQUE_ID" in hidden.values(),
            repeatable=not getattr(found, "NOT_IDEMPOTENT", False),
            is_new_code=code.is_new,
        )

    def with_new_names(self, prompt: dict[str, Any]) -> dict[str, Any]:
        """Replace them now: ComfyUI does it after all handlers of a post, and numbers the outputs
        that nodes take anew, those of our guards too.
        """
        manager = getattr(PromptServer.instance, "node_replace_manager", None)
        if manager is not None:
            manager.apply_replacements(prompt)
        return prompt

    def files_named(self, name: str) -> list[Path]:
        return host_files.files_named(name)

    def is_core(self, type_name: str) -> bool:
        return type_name in _core_types()


@lru_cache(maxsize=1)
def _core_types() -> frozenset[str]:
    """Return the types that ComfyUI's own nodes return; all of them are loaded once it serves."""
    classes = list(core_nodes.NODE_CLASS_MAPPINGS.values())
    info = [{"output": _outputs(found)} for found in classes if _is_core(found)]
    return frozenset(kind for one in info for kind in from_object_info(one).outputs)


def _outputs(node_class: Any) -> Any:
    return getattr(node_class, "RETURN_TYPES", None) or ()


def _is_core(node_class: Any) -> bool:
    module = getattr(node_class, "RELATIVE_PYTHON_MODULE", None) or node_class.__module__
    return str(module).split(".")[0] in CORE_MODULES


def _decides_changes(node_class: Any) -> bool:
    return _own(node_class, "IS_CHANGED", "fingerprint_inputs") is not None


def _checks_types(node_class: Any) -> bool:
    validate = _own(node_class, "VALIDATE_INPUTS", "validate_inputs")
    return validate is not None and "input_types" in inspect.getfullargspec(validate).args


def _own(node_class: Any, name: str, v3_name: str) -> Any:
    """Return a function that a node class may have under one name, a V3 class under the other."""
    if hasattr(node_class, "GET_BASE_CLASS"):
        return first_real_override(node_class, v3_name)
    return getattr(node_class, name, None)


def _pack_folder(node_class: Any) -> Path:
    """Return the folder (or the file) of the pack that a custom node comes from."""
    file = Path(inspect.getfile(node_class))
    for root in folder_paths.get_folder_paths("custom_nodes"):
        if file.is_relative_to(root):
            return Path(root) / file.relative_to(root).parts[0]
    return file


@lru_cache(maxsize=256)
def _code_at(place: Path) -> Code:
    """Return the Python code of a file or folder as it was imported; it is read once."""
    return code_of(place)

"""The host adapter to ComfyUI's graph: node classes and the running prompt.
"""

import importlib.metadata
import inspect
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import comfy.cli_args
import comfy.model_management as mm
import comfy.sd1_clip
import comfy.utils
import folder_paths
import torch
from comfy_api.internal import first_real_override
from comfy_execution.utils import get_executing_context
from execution import nodes as core_nodes
from server import PromptServer

from ..base.file_identity import Code, code_of
from ..base.prompt_graph import ClassInfo
from . import files as host_files
from .node_cache import asked_about

CORE_MODULES = ("nodes", "comfy_extras")
NUMERIC_FLAGS = (
    "fp8", "fp16", "bf16", "fp32", "force_", "use_", "disable_xformers", "dont_upcast",
    "deterministic", "fast",
)
# Below comfy/: code, configurations and vocabularies.
ENCODER_SUFFIXES = (".py", ".json", ".txt", ".model")
# What turns text into tokens, and kernels that encoders may run on, where they are installed.
ENCODER_PACKAGES = (
    "transformers", "tokenizers", "sentencepiece", "comfy-kitchen", "comfy-aimdo", "xformers",
    "flash-attn", "sageattention", "triton",
)

# ---------------------------------------------------------------- node classes


class HostLookup:
    """ComfyUI's node classes and model folders, as `prompt_graph.Lookup` wants them."""

    def node_info(self, class_type: str) -> ClassInfo | None:
        """Return what is known of a class, None for one that is not installed."""
        found = core_nodes.NODE_CLASS_MAPPINGS.get(class_type)
        if found is None:
            return None
        is_core = _module_of(found).split(".")[0] in CORE_MODULES
        code = _code_at(Path(inspect.getfile(found)) if is_core else _pack_folder(found))
        hidden = found.INPUT_TYPES().get("hidden", {})
        return ClassInfo(
            code=code.digest,
            is_core=is_core,
            own_changes=_decides_changes(found),
            wants_id="UNIQUE_ID" in hidden.values(),
            repeatable=not getattr(found, "NOT_IDEMPOTENT", False),
            is_new_code=code.is_new,
        )

    def files_named(self, name: str) -> list[Path]:
        """Return the existing files that a widget value may mean, in every models folder."""
        return host_files.files_named(name)


def _module_of(node_class: Any) -> str:
    return getattr(node_class, "RELATIVE_PYTHON_MODULE", None) or str(node_class.__module__)


def _decides_changes(node_class: Any) -> bool:
    if hasattr(node_class, "GET_BASE_CLASS"):
        return first_real_override(node_class, "fingerprint_inputs") is not None
    return hasattr(node_class, "IS_CHANGED")


def _pack_folder(node_class: Any) -> Path:
    """Return the folder (or the file) of the pack that a custom node comes from."""
    file = Path(inspect.getfile(node_class))
    for root in folder_paths.get_folder_paths("custom_nodes"):
        if file.is_relative_to(root):
            return Path(root) / file.relative_to(root).parts[0]
    return file


@lru_cache(maxsize=256)
def _code_at(place: Path) -> Code:
    """Return the Python code at a file or folder; it runs as it was imported, so once is enough."""
    return code_of(place)


# ---------------------------------------------------------------- what encoding depends on


def numerics() -> dict[str, str]:
    """Return what else decides the bits of an embedding: device, dtype, code and flags."""
    device = mm.text_encoder_device()
    flags = {
        name: _plain(value) for name, value in sorted(vars(comfy.cli_args.args).items())
        if name.startswith(NUMERIC_FLAGS)
    }
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "device": name, "dtype": str(mm.text_encoder_dtype(device)), "torch": torch.__version__,
        "comfy": comfy_code().digest, **_package_versions(), **flags,
    }


def _plain(flag: Any) -> str:
    return str(sorted(map(str, flag))) if isinstance(flag, (set, frozenset)) else str(flag)


@lru_cache(maxsize=1)
def comfy_code() -> Code:
    """Return all of comfy/: encoders, loaders, LoRA, casts and dtypes are all over it."""
    return code_of(Path(comfy.sd1_clip.__file__).parent, suffixes=ENCODER_SUFFIXES)


@lru_cache(maxsize=1)
def _package_versions() -> dict[str, str]:
    return {name: _version(name) for name in ENCODER_PACKAGES}


def _version(name: str) -> str:
    """Return the version that runs, else the one installed: it may have been updated since."""
    running = getattr(sys.modules.get(name.replace("-", "_")), "__version__", None)
    if running is not None:
        return str(running)
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


# ---------------------------------------------------------------- the running prompt


def running_prompt() -> tuple[Mapping[str, Any], str] | None:
    """Return (API prompt, node id) of the node that ComfyUI is asking in this thread.

    For a node whose hidden inputs are not there yet: ComfyUI fingerprints without them.
    """
    context = get_executing_context()
    server = getattr(PromptServer, "instance", None)
    if context is None or server is None:
        return None
    asked = asked_about.get()
    if asked is not None:
        return asked, context.node_id
    for item in server.prompt_queue.get_current_queue_volatile()[0]:
        if item[1] == context.prompt_id and context.node_id in item[2]:
            return item[2], context.node_id
    return None


def place() -> tuple[str | None, str, int]:
    """Return (prompt id, node id, place in its list of inputs) of the node in this thread."""
    context = get_executing_context()
    if context is None:
        return None, "", 0
    return context.prompt_id, context.node_id, context.list_index or 0


def on_prompt(handler: Any) -> None:
    """Call `handler` with the graph of every prompt that is queued over HTTP, before it runs.

    Needs a server in this process (host_server.has_server).
    """

    def tell(request: dict[str, Any]) -> dict[str, Any]:
        graph = request.get("prompt")
        if isinstance(graph, dict):
            handler(graph)
        return request

    PromptServer.instance.add_on_prompt_handler(tell)


# ---------------------------------------------------------------- encoding


def progress(total: int) -> Any:
    """Return ComfyUI's progress bar of the running node; call `.update(1)` after each step."""
    return comfy.utils.ProgressBar(total)


def stop_if_interrupted() -> None:
    """Raise ComfyUI's interrupt exception when the user asked to stop."""
    mm.throw_exception_if_processing_interrupted()

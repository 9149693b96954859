"""The host adapter to ComfyUI's graph: the running prompt, and what encoding depends on."""

import importlib.metadata
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import comfy.cli_args
import comfy.model_management as mm
import comfy.sd1_clip
import comfyui_version
import torch
from comfy.utils import ProgressBar as ProgressBar
from comfy_execution.utils import get_executing_context
from server import PromptServer

from ..base.file_identity import commit_of
from .types import asked_about

NUMERIC_FLAGS = (
    "fp8", "fp16", "bf16", "fp32", "force_", "use_", "disable_xformers", "dont_upcast",
    "deterministic", "fast", "supports_", "enable_triton", "disable_triton",
)
# Libraries that make tokens of text, and kernels that encoders may use, if they are installed.
ENCODER_PACKAGES = (
    "transformers", "tokenizers", "sentencepiece", "comfy-kitchen", "comfy-aimdo", "xformers",
    "flash-attn", "sageattention", "triton",
)

# Read when this file is imported, like ComfyUI's code: the versions on disk may be newer later.
COMFY_VERSION = f"{comfyui_version.__version__} {commit_of(Path(comfyui_version.__file__).parent)}"

# ---------------------------------------------------------------- what encoding depends on


def numerics() -> dict[str, str]:
    """Return what else changes the bits of an embedding: device, dtype, code and flags."""
    device = mm.text_encoder_device()
    flags = {
        name: _plain(value) for name, value in sorted(vars(comfy.cli_args.args).items())
        if name.startswith(NUMERIC_FLAGS)
    }
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "device": name, "dtype": str(mm.text_encoder_dtype(device)), "torch": torch.__version__,
        "comfy": COMFY_VERSION, **_package_versions(), **flags,
    }


def _plain(flag: Any) -> str:
    return str(sorted(map(str, flag))) if isinstance(flag, (set, frozenset)) else str(flag)


@lru_cache(maxsize=1)
def _package_versions() -> dict[str, str]:
    return {name: _version(name) for name in ENCODER_PACKAGES}


def _version(name: str) -> str:
    """Return the version that runs, else the installed one, which may have been updated since."""
    running = getattr(sys.modules.get(name.replace("-", "_")), "__version__", None)
    if running is not None:
        return str(running)
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


# ---------------------------------------------------------------- the running prompt


def running_prompt() -> tuple[Mapping[str, Any], str] | None:
    """Return (API prompt, node id) of the node that ComfyUI asks about in this thread.

    Use it where a node has no hidden inputs yet: ComfyUI fingerprints nodes without them.
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


# ---------------------------------------------------------------- encoding


def stop_if_interrupted() -> None:
    mm.throw_exception_if_processing_interrupted()

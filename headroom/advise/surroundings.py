"""What advice needs to know besides the record: other processes, torch's settings, earlier runs."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..base.device import MIB, computes_in_bf16, is_started
from ..base.prompt_graph import Prompt
from ..measure.other_processes import other_processes
from ..measure.snapshot import used_devices
from .case import Surroundings
from .encoders import CORE_ENCODE
from .steps import ENCODE

SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def of(failure: Mapping[str, Any] | None, seen: Mapping[str, int]) -> Surroundings:
    """Return what there is to know now."""
    return Surroundings(failure, others(), allocator(), seen, computes_in_bf16())


def others() -> dict[str, float]:
    """Return MiB of other processes on the cards by their names; empty where nobody tells."""
    return {other.name: other.used_bytes / MIB
            for device in used_devices() for other in other_processes(device)}


def allocator() -> dict[str, Any]:
    """Return which allocator torch uses, and those of its settings that matter here."""
    if not torch.cuda.is_available() or not is_started("cuda"):
        return {}
    said = ",".join(os.environ.get(name, "") for name in SETTINGS).replace(" ", "").lower()
    return {
        "backend": torch.cuda.get_allocator_backend(),
        "expandable": "expandable_segments:true" in said,
        "threshold": "garbage_collection_threshold:" in said,
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
    }


def seen_before(
    prompt: Prompt, earlier: Iterable[tuple[Prompt, frozenset[str]]]
) -> dict[str, int]:
    """Return, for each encode node, how many earlier runs have encoded its very text.

    A run that took it from ComfyUI's cache does not count.
    """
    texts = {node_id: text for node_id, node in prompt.items()
             if (text := _text(node)) is not None}
    counts = dict.fromkeys(texts, 0)
    for other, ran in earlier:
        encoded = {_text(node) for node_id, node in other.items() if node_id in ran}
        for node_id, text in texts.items():
            counts[node_id] += text in encoded
    return counts


def _text(node: Mapping[str, Any]) -> str | None:
    text = (node.get("inputs") or {}).get("text")
    is_encoding = node.get("class_type") in (CORE_ENCODE, ENCODE)
    return text if is_encoding and isinstance(text, str) else None

"""The key of a prompt, the ids of its attempts, and the kind that it is of."""

import hashlib
import json
import uuid
from pathlib import PurePosixPath
from typing import Any

from .words import Json

NAMESPACE = uuid.UUID("6a3b1f0e-5d0c-4f6e-9f0b-7b1f4e6d2c11")
KEY_DIGITS = 20
# Inputs that change the picture, but not what it takes to make it.
WITHOUT_WEIGHT = frozenset({"seed", "noise_seed", "text", "prompt", "filename_prefix"})
LONGEST_CHOICE = 80
MODEL_SUFFIXES = frozenset({
    ".safetensors", ".sft", ".ckpt", ".pt", ".pth", ".bin", ".gguf", ".onnx",
})


def key_of(prompt: Json, extra_data: Json) -> str:
    """Return the hash of what a prompt asks for; titles on the canvas are no part of it."""
    nodes = {
        node_id: {name: value for name, value in node.items() if name != "_meta"}
        for node_id, node in prompt.items()
    }
    return _hash([nodes, extra_data])[:KEY_DIGITS]


def prompt_id_of(key: str, server: str, ended: int) -> str:
    """Return the id of a prompt's attempt on a server, where `ended` attempts have ended there.

    The same after a restart of the farm, so that the server can be asked whether it has it.
    """
    return str(uuid.uuid5(NAMESPACE, f"{key}/{server}/{ended}"))


def attempt_id(prompt_id: str, server: str, ended: int) -> str:
    """Return the id under which a server gets a prompt of a door: at first its own, if it may.

    ComfyUI wants a UUID as it is usually written; a later attempt must not look like the first.
    """
    try:
        is_usable = str(uuid.UUID(prompt_id)) == prompt_id
    except ValueError:
        is_usable = False
    return prompt_id if is_usable and not ended else prompt_id_of(prompt_id, server, ended)


def kind_of(prompt: Json) -> str:
    """Return a hash that prompts share which need the same memory.

    The graph with its models, sizes, batches and choices, without seeds and texts. What a text is
    nobody says here: one without a space that is short passes for a choice, and makes a kind of
    its own.
    """
    return _hash({
        node_id: [node["class_type"], {
            name: value for name, value in node["inputs"].items() if _has_weight(name, value)
        }]
        for node_id, node in prompt.items()
    })[:KEY_DIGITS]


def models_of(prompt: Json) -> frozenset[str]:
    """Return the files of weights that a prompt names."""
    return frozenset(value for node in prompt.values() for value in node["inputs"].values()
                     if isinstance(value, str) and _is_model(value))


def _is_model(word: str) -> bool:
    return PurePosixPath(word).suffix.lower() in MODEL_SUFFIXES


def _has_weight(name: str, value: Any) -> bool:
    if name in WITHOUT_WEIGHT or not isinstance(value, str):
        return name not in WITHOUT_WEIGHT
    return _is_model(value) or (" " not in value and len(value) <= LONGEST_CHOICE)


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

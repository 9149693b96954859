"""LoRAs whose sizes nobody knows, left out of a prompt: what remains is its model, nearly."""

from collections.abc import Collection
from typing import Any

from .fit_prompt import ObjectInfo

Json = dict[str, Any]
LORA = "lora"  # in the names of the inputs that take one, whichever node has them


def without_loras(
    prompt: Json, unknown: Collection[str], registry: ObjectInfo
) -> tuple[Json, list[str]]:
    """The prompt without the nodes that load one of these files as a LoRA, and which they were.

    Where a node gives more than what it is given, it stays.
    """
    passed = {node_id: through for node_id, node in prompt.items()
              if _lora(node, unknown) and (through := _through(node, registry)) is not None}
    kept = {node_id: {**node, "inputs": {name: _source(value, passed)
                                         for name, value in node["inputs"].items()}}
            for node_id, node in prompt.items() if node_id not in passed}
    return kept, [f"{_lora(prompt[node_id], unknown)} (node {node_id})" for node_id in passed]


def _lora(node: Json, unknown: Collection[str]) -> str:
    found = [value for name, value in node["inputs"].items()
             if LORA in name.lower() and isinstance(value, str) and value in unknown]
    return found[0] if found else ""


def _through(node: Json, registry: ObjectInfo) -> dict[int, Any] | None:
    """Return the input wire of the same type for each output; None if an output has none."""
    kind = registry.node_type(node["class_type"])
    if kind is None:
        return None
    wires = {kind.input(name): value for name, value in node["inputs"].items()
             if isinstance(value, list)}
    through = {number: wires.get(given) for number, given in enumerate(kind.outputs)}
    return through if None not in through.values() else None


def _source(value: Any, passed: dict[str, dict[int, Any]]) -> Any:
    while isinstance(value, list) and value and value[0] in passed:
        value = passed[value[0]][value[1]]
    return value

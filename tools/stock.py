"""A bundled workflow as it would be without this pack: ComfyUI's own nodes alone.

What passes a value through is taken out, encoding is ComfyUI's CLIPTextEncode, and a list of
prompts or sizes comes in the order in which it was written (from `lab/packs/
headroom_small_encoders`: ComfyUI itself has no node that makes a list).
"""

import re
from typing import Any

Json = dict[str, Any]

# For each node that passes values through: which input each of its outputs is.
PASSES: dict[str, dict[int, str]] = {
    "HeadroomPurgeVRAM": {0: "value"},
    "HeadroomOffloadModel": {0: "model", 1: "after"},
    "HeadroomCastBF16": {0: "model"},
    "HeadroomMoveToCPU": {0: "value"},
    "HeadroomRestoreOrder": {0: "items"},
    "HeadroomOOMGuard": {0: "model"},
    "HeadroomMemoryReport": {0: "value"},
}
LINES, SIZES = "PlainLines", "PlainSizes"


def without_headroom(prompt: Json) -> Json:
    """The prompt with none of our nodes; what only showed their reports is gone too."""
    stock: Json = {}
    for key, node in prompt.items():
        kind, inputs = node["class_type"], node["inputs"]
        if kind == "HeadroomEncodeToCPU":
            stock.update(_encoding(key, inputs))
        elif kind == "HeadroomSizeSorter" and "items" not in inputs:
            text = "\n".join(f"{w}x{h}" for w, h in written_sizes(inputs["sizes"]))
            stock[key] = {"class_type": SIZES, "inputs": {"text": text}}
        elif not kind.startswith("Headroom"):
            stock[key] = node
    resolved = {key: _resolved(node, prompt) for key, node in stock.items()}
    return _with_an_output(_without_loose_ends(resolved))


def written_sizes(text: str) -> list[tuple[int, int]]:
    """The sizes of a Size Sorter text in the order in which they are written."""
    lists = dict(re.findall(r"(heights|widths)=\[([^\]]*)\]", text))
    if lists:
        sides = {name: [int(side) for side in found.split(",")] for name, found in lists.items()}
        return [(width, height) for height in sides["heights"] for width in sides["widths"]]
    return [(int(w), int(h)) for w, h in re.findall(r"(\d+)x(\d+)", text)]


def _encoding(key: str, inputs: Json) -> Json:
    text: Any = inputs["text"]
    made: Json = {}
    if inputs["split"] == "one prompt per line":
        made[f"{key}-lines"] = {"class_type": LINES, "inputs": {"text": text}}
        text = [f"{key}-lines", 0]
    made[key] = {"class_type": "CLIPTextEncode", "inputs": {"clip": inputs["clip"], "text": text}}
    return made


def _resolved(node: Json, prompt: Json) -> Json:
    inputs = {name: _source(value, prompt) for name, value in node["inputs"].items()}
    return {**node, "inputs": inputs}


def _source(value: Any, prompt: Json) -> Any:
    """Follow a wire through our nodes to where its value comes from; None where it ends there."""
    while isinstance(value, list) and value[0] in prompt:
        node = prompt[value[0]]
        kind = node["class_type"]
        if kind == "HeadroomEncodeToCPU" and value[1] != 0:
            return None
        if kind == "HeadroomSizeSorter" and (value[1] > 1 or "items" in node["inputs"]):
            return None
        if kind not in PASSES:
            return value
        value = node["inputs"].get(PASSES[kind].get(value[1], ""))
    return value


def _without_loose_ends(prompt: Json) -> Json:
    """Without the nodes that showed something which is no longer there."""
    return {
        key: node for key, node in prompt.items()
        if all(value is not None for value in node["inputs"].values())
    }


def _with_an_output(prompt: Json) -> Json:
    """ComfyUI runs only what leads to an output: show the conditioning if there is no other."""
    if any(node["class_type"].startswith(("Save", "Preview")) for node in prompt.values()):
        return prompt
    (encoder,) = [k for k, node in prompt.items() if node["class_type"] == "CLIPTextEncode"]
    return {**prompt, "show": {"class_type": "PreviewAny", "inputs": {"source": [encoder, 0]}}}

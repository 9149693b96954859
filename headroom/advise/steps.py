"""The steps of edits: our nodes with the values that they get, and the wires they go on."""

from typing import Any

from .case import Case
from .finding import Json
from .wires import TYPE_OF_KIND, Link

OFFLOAD, PURGE, GUARD = "HeadroomOffloadModel", "HeadroomPurgeVRAM", "HeadroomOOMGuard"
CAST, ENCODE = "HeadroomCastBF16", "HeadroomEncodeToCPU"
INPUTS: dict[str, Json] = {
    OFFLOAD: {"scope": "this model", "to": "CPU"},
    PURGE: {"unload": "all models", "only_below_free_mib": 0, "free_ram": False,
            "reset_node_cache": False, "run": "when inputs change"},
    GUARD: {"free_other_models": True, "offload_weights": True, "split_batch": True,
            "tile_vae": True, "max_attempts": 8, "prefer": "same bits"},
    CAST: {"dtype": "bfloat16", "keep_float32": ""},
    ENCODE: {"split": "one prompt", "release_encoder": True, "cache": "off"},
}
THROUGH = {OFFLOAD: ("after", 1), PURGE: ("value", 0), GUARD: ("model", 0), CAST: ("model", 0)}


def insert(
    class_type: str, ref: str, source: Link, to: list[list[str]],
    links: dict[str, Any] | None = None, **values: Any,
) -> Json:
    """Return the step that puts one of our nodes between an output and the inputs it feeds."""
    through, out = THROUGH[class_type]
    return {"op": "insert", "ref": ref, "class_type": class_type,
            "inputs": {**INPUTS[class_type], **values}, "from": list(source), "through": through,
            "out": out, "to": to, "links": links or {}}


def encode_instead(node_id: str) -> Json:
    """Return the step that puts Encode to CPU in the place of a CLIP Text Encode."""
    return {"op": "replace", "node": node_id, "class_type": ENCODE,
            "keep": {"clip": "clip", "text": "text"},
            "inputs": INPUTS[ENCODE], "outputs": {"0": 0}}


def wire_of(case: Case, model_id: str) -> Link | None:
    """Return an output that gives a model, as near to its loader as can be."""
    kind, owners = TYPE_OF_KIND[case.models[model_id].kind], case.owners[model_id]
    for owner in owners:
        declared = case.wires.node_type(owner)
        if declared is not None and kind in declared.outputs:
            return owner, declared.outputs.index(kind)
    for node_id in case.prompt:
        for name, link in case.wires.links(node_id):
            if case.wires.type_of(node_id, name, link) == kind and (
                case.wires.loaders(link, kind) & owners
            ):
                return link
    return None


def entry_wire(case: Case, node_id: str, behind: str | None) -> Link | None:
    """Return the wire into a node on which to make it wait: one that comes from `behind` it.

    Else the one whose giver ran last. Data before models: what waits for a model waits for nothing.
    """
    links = list(case.wires.links(node_id))
    data = [link for name, link in links
            if case.wires.type_of(node_id, name, link) not in TYPE_OF_KIND.values()]
    after = [link for _, link in links if behind in case.wires.above(link[0])]
    for wires in (after, data, [link for _, link in links]):
        if wires:
            return max(wires, key=lambda link: case.last_run(link[0]))
    return None


def alike(case: Case, node_id: str, link: Link) -> list[list[str]]:
    """Return the inputs that an output feeds in a node and in others of its class."""
    wanted = case.prompt[node_id]["class_type"]
    return [[taker, name] for taker, name in case.wires.takers(link)
            if case.prompt[taker]["class_type"] == wanted]

"""The steps of edits: our nodes with their values, and the wires on which they are put."""

from collections.abc import Sequence
from typing import Any

from ..base.graph import MODELS, TYPE_OF_KIND, Source, Wire
from ..base.guards import GUARD_INPUTS
from ..base.loops import Loops, loops_of, output_loops
from ..base.node_types import GUARD_CLASS
from .case import Case
from .finding import Json

OFFLOAD, PURGE = "HeadroomOffloadModel", "HeadroomPurgeVRAM"
CAST, ENCODE = "HeadroomCastBF16", "HeadroomEncodeToCPU"
INPUTS: dict[str, Json] = {
    OFFLOAD: {"scope": "this model", "to": "CPU"},
    PURGE: {"unload": "all models", "only_below_free_mib": 0, "free_ram": False,
            "reset_node_cache": False, "run": "when inputs change"},
    GUARD_CLASS: GUARD_INPUTS,
    CAST: {"dtype": "bfloat16", "keep_float32": ""},
    ENCODE: {"split": "one prompt", "release_encoder": True, "cache": "off"},
}
THROUGH = {OFFLOAD: ("after", 1), PURGE: ("value", 0), GUARD_CLASS: ("model", 0),
           CAST: ("model", 0)}


def insert(
    class_type: str, ref: str, source: Source, to: Sequence[Wire],
    links: dict[str, Any] | None = None, **values: Any,
) -> Json:
    """Return the step that puts one of our nodes between an output and the inputs it feeds."""
    through, out = THROUGH[class_type]
    return {"op": "insert", "ref": ref, "class_type": class_type,
            "inputs": {**INPUTS[class_type], **values}, "from": list(source), "through": through,
            "out": out, "to": [[wire.taker, wire.input] for wire in to], "links": links or {}}


def encode_instead(node_id: str) -> Json:
    """Return the step that replaces a CLIP Text Encode by an Encode to CPU."""
    return {"op": "replace", "node": node_id, "class_type": ENCODE,
            "keep": {"clip": "clip", "text": "text"},
            "inputs": INPUTS[ENCODE], "outputs": {"0": 0}}


def wire_of(case: Case, model_id: str) -> Source | None:
    """Return an output with a model, as near to its loader as possible."""
    kind, owners = TYPE_OF_KIND[case.models[model_id].kind], case.owners[model_id]
    for owner in owners:
        declared = case.graph.node_type(owner)
        if declared is not None and kind in declared.outputs:
            return owner, declared.outputs.index(kind)
    for node_id in case.prompt:
        for wire in case.graph.wires(node_id):
            if wire.type == kind and case.graph.loaders(wire.source, kind) & owners:
                return wire.source
    return None


def entry_wire(case: Case, node_id: str, behind: str | None, within: Loops) -> Source | None:
    """Return the wire of a node on which a new node makes it wait: one that comes after `behind`.

    If there is none, the one whose source ran last. Data comes before models: a wire with a model
    is ready as soon as the model is loaded. `within`: only wires in all of these loops, because a
    node on a wire into a loop runs once.
    """
    loops = loops_of(case.graph)
    every = [wire for wire in case.graph.wires(node_id)
             if output_loops(case.graph, loops, wire.giver) >= within]
    data = [wire for wire in every if wire.type not in MODELS]
    after = [wire for wire in every if behind in case.graph.above(wire.giver)]
    for wires in (after, data, every):
        if wires:
            return max(wires, key=lambda wire: case.last_run(wire.giver)).source
    return None


def alike(case: Case, node_id: str, source: Source) -> list[Wire]:
    """Return the inputs that an output feeds, in a node and in others of its class."""
    wanted = case.prompt[node_id]["class_type"]
    return [wire for wire in case.graph.takers(*source)
            if case.prompt[wire.taker]["class_type"] == wanted]

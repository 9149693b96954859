"""A text encoder that stays on the GPU while others run: Encode to CPU in the encode nodes' place.

Where a node encodes in a way of its own, an Offload Model follows it instead.
"""

from typing import Any

from .case import Bounds, Case
from .finding import Finding, Json
from .words import amounts

ENCODE = "CLIPTextEncode"
ENCODE_INPUTS = {"split": "one prompt", "release_encoder": True, "cache": "off"}
OFFLOAD_INPUTS = {"scope": "this model", "to": "CPU"}


def findings(case: Case) -> list[Finding]:
    """Return one finding for each text encoder that was idle at the peak."""
    encoders = [m for m, facts in case.models.items() if facts.kind == "text encoder"]
    return [found for model in encoders if (found := _finding(case, model)) is not None]


def _finding(case: Case, model_id: str) -> Finding | None:
    nodes = _encoding_nodes(case, model_id)
    gone = {step.node_id: step.held[model_id] for step in case.steps
            if model_id in step.held and not case.uses(step, model_id)}
    steps = [part for node in nodes for part in _edit(case, node)]
    top = case.top
    if not steps or top is None:
        return None
    facts, held = case.models[model_id], gone.get(top.node_id, Bounds(0, 0))
    plain = all(step["op"] == "replace" for step in steps)
    return Finding(
        kind="encode_to_cpu" if plain else "offload_after",
        saves=case.saved(gone),
        values=_values(case, model_id),
        measured_on={"node_id": top.node_id, "model": facts.class_name,
                     "held_mib": round(held.high / 2**20, 3),
                     "peak_mib": round(top.peak.at_least / 2**20, 3)},
        node_ids=tuple(nodes), cost="seconds", edit={"steps": steps},
    )


def _values(case: Case, model_id: str) -> Json:
    facts, top = case.models[model_id], case.top
    assert top is not None
    held = top.held.get(model_id, Bounds(0, 0)).high
    return {"model": facts.file or facts.class_name, "node": top.title, "node_id": top.node_id,
            **amounts(held=held)}


def _encoding_nodes(case: Case, model_id: str) -> list[str]:
    """Return the nodes that compute with the encoder."""
    owners = case.owners[model_id]
    return [
        node_id for node_id in case.prompt
        if any(("CLIP", owner) in case.wires.uses(node_id) for owner in owners)
        and _encodes(case, node_id)
    ]


def _encodes(case: Case, node_id: str) -> bool:
    declared = case.wires.node_type(node_id)
    return declared is not None and "CONDITIONING" in declared.outputs


def _edit(case: Case, node_id: str) -> list[Json]:
    node = case.prompt[node_id]
    if str(node["class_type"]).startswith("Headroom"):
        return []
    if node["class_type"] == ENCODE:
        return [{"op": "replace", "node": node_id, "class_type": "HeadroomEncodeToCPU",
                 "keep": {"clip": "clip", "text": "text"}, "inputs": dict(ENCODE_INPUTS),
                 "outputs": {"0": 0}}]
    return _offload(case, node_id)


def _offload(case: Case, node_id: str) -> list[Json]:
    declared = case.wires.node_type(node_id)
    outputs = declared.outputs if declared is not None else ()
    clips = [list(link) for name, link in case.wires.links(node_id)
             if case.wires.type_of(node_id, name, link) == "CLIP"]
    number = outputs.index("CONDITIONING") if "CONDITIONING" in outputs else None
    takers: list[Any] = [] if number is None else case.wires.takers((node_id, number))
    if not clips or not takers:
        return []
    return [{"op": "insert", "ref": f"after-{node_id}", "class_type": "HeadroomOffloadModel",
             "inputs": dict(OFFLOAD_INPUTS), "from": [node_id, number], "through": "after",
             "out": 1, "to": takers, "links": {"model": clips[0]}}]

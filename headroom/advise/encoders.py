"""A text encoder that stays on the GPU while others run: replace encode nodes by Encode to CPU.

If a node encodes in another way, an Offload Model follows it instead.
"""

from collections.abc import Iterator

from .case import Case, Step
from .finding import Finding, Json
from .option import named, option
from .steps import OFFLOAD, encode_instead, insert

CORE_ENCODE = "CLIPTextEncode"


def options(case: Case, step: Step) -> Iterator[Finding]:
    """Yield a way to free each text encoder that is idle while `step` runs."""
    encoders = [m for m, facts in case.models.items() if facts.kind == "text encoder"]
    for model_id in encoders:
        nodes = [node_id for node_id in case.prompt if _encodes(case, node_id) and any(
            ("CLIP", owner) in case.graph.uses(node_id) for owner in case.owners[model_id])]
        steps = [part for node in nodes for part in _edit(case, node)]
        gone = {(other.node_id, model_id): held for other in case.steps
                if (held := case.idle(other).get(model_id)) is not None}
        if steps and any(node_id == step.node_id for node_id, _ in gone):
            plain = all(part["op"] == "replace" for part in steps)
            yield option("encode_to_cpu" if plain else "offload_after", step, steps, gone,
                         nodes, model=named(case, model_id))


def _encodes(case: Case, node_id: str) -> bool:
    declared = case.graph.node_type(node_id)
    return declared is not None and "CONDITIONING" in declared.outputs


def _edit(case: Case, node_id: str) -> list[Json]:
    class_type = str(case.prompt[node_id]["class_type"])
    if class_type.startswith("Headroom"):
        return []
    return [encode_instead(node_id)] if class_type == CORE_ENCODE else _offload(case, node_id)


def _offload(case: Case, node_id: str) -> list[Json]:
    declared = case.graph.node_type(node_id)
    clips = [list(wire.source) for wire in case.graph.wires(node_id) if wire.type == "CLIP"]
    if declared is None or not clips:
        return []
    made = (node_id, declared.outputs.index("CONDITIONING"))
    takers = case.graph.takers(*made)
    links = {"model": clips[0]}
    return [insert(OFFLOAD, f"after-{node_id}", made, takers, links)] if takers else []

"""A text encoder that stays on the GPU while others run: replace encode nodes by Encode to CPU.

If a node encodes in another way, an Offload Model follows it instead.
"""

from collections.abc import Iterator

from .case import Bounds, Case, Gone, Step, together
from .finding import Json
from .option import Option, named, option
from .steps import OFFLOAD, encode_instead, insert

CORE_ENCODE = "CLIPTextEncode"


def options(case: Case, step: Step) -> Iterator[Option]:
    """Yield a way to free each text encoder that is idle while `step` runs, and its results."""
    encoders = [m for m, facts in case.models.items() if facts.kind == "text encoder"]
    for model_id in encoders:
        nodes = encoding_nodes(case, model_id)
        steps = [part for node in nodes for part in _edit(case, node)]
        gone = together(_idle(case, model_id), _made(case, nodes))
        if steps and any(node_id == step.node_id for node_id, _ in gone):
            plain = all(part["op"] == "replace" for part in steps)
            yield option("encode_to_cpu" if plain else "offload_after", step, steps, gone,
                         nodes, model=named(case, model_id))


def _idle(case: Case, model_id: str) -> Gone:
    return {(step.node_id, model_id): idle[model_id] for step in case.steps
            if model_id in (idle := case.idle(step))}


def _made(case: Case, nodes: list[str]) -> Gone:
    """Return the bytes that encoding left on the GPU; afterwards they are in RAM."""
    found, kept = {}, 0
    for step in case.steps:
        if kept:
            found[step.node_id, "made"] = Bounds(kept // 2, kept)
        if step.prompt_node in nodes and case.prompt[step.prompt_node]["class_type"] == CORE_ENCODE:
            kept += step.kept_bytes
    return found


def encoding_nodes(case: Case, model_id: str) -> list[str]:
    """Return the nodes that make a conditioning with a text encoder."""
    owners = case.owners[model_id]
    return [node_id for node_id in case.prompt if _encodes(case, node_id) and any(
        ("CLIP", owner) in case.graph.uses(node_id) for owner in owners)]


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

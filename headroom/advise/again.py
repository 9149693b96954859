"""The same text encoded in run after run: keep the result on disk, and the encoder stays away."""

from ..base.device import in_mib
from .case import Bounds, Case, Step
from .encoders import CORE_ENCODE, encoding_nodes
from .finding import Finding, Json
from .steps import ENCODE, encode_instead
from .words import amounts

OFTEN = 2  # runs before this one


def findings(case: Case) -> list[Finding]:
    """Return a finding for each text encoder whose nodes have encoded all this before."""
    encoders = [m for m, facts in case.models.items() if facts.kind == "text encoder"]
    return [found for model_id in encoders if (found := _finding(case, model_id)) is not None]


def _finding(case: Case, model_id: str) -> Finding | None:
    nodes = encoding_nodes(case, model_id)
    ran = [step for step in case.steps if step.prompt_node in nodes]
    times = min((case.around.seen_before.get(node, 0) for node in nodes), default=0)
    steps = [part for node in nodes for part in _edit(case, node)]
    if times < OFTEN or not ran or len(steps) < len(nodes):
        return None
    held = max(step.held[model_id].high for step in ran if model_id in step.held)
    gone = {(step.node_id, model_id): _away(step, model_id) for step in case.steps
            if model_id in step.held}
    return Finding(
        kind="disk_cache", saves=case.saved(gone),
        values={"node": ran[0].name, "node_id": ran[0].node_id, "times": times + 1,
                **amounts(held=held)},
        measured_on={"node_id": ran[0].node_id, "times": times + 1, "held_mib": in_mib(held)},
        node_ids=tuple(nodes), edit={"steps": steps},
    )


def _away(step: Step, model_id: str) -> Bounds:
    """Of a text that is new the encoder is needed once more."""
    return Bounds(0, step.held[model_id].high)


def _edit(case: Case, node_id: str) -> list[Json]:
    node = case.prompt[node_id]
    if node["class_type"] == CORE_ENCODE:
        return [encode_instead(node_id, "disk")]
    if node["class_type"] == ENCODE and node["inputs"].get("cache") == "off":
        return [{"op": "set", "node": node_id, "input": "cache", "value": "disk"}]
    return []

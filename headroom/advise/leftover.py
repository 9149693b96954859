"""What stays on the GPU after the run: a Purge VRAM at its end frees the card for others."""

from ..base.device import in_mib
from ..base.loops import loops_of, output_loops
from .case import Case
from .finding import Bounds, Finding
from .steps import PURGE, insert
from .words import amounts


def findings(case: Case) -> list[Finding]:
    """Return a purge after the last node that ran; the peak of this run does not change.

    What torch has only in its cache does not count: ComfyUI returns it seconds after the prompt.
    """
    last = case.steps[-1] if case.steps else None
    if last is None or last.status != "done" or last.prompt_node not in case.prompt:
        return []
    loops = loops_of(case.graph)  # ComfyUI refuses an output node inside a loop
    wire = next((wire.source for wire in case.graph.wires(last.prompt_node)
                 if not output_loops(case.graph, loops, wire.giver)), None)
    is_purged = any(node["class_type"] == PURGE and node["inputs"].get("unload") == "all models"
                    for node in case.prompt.values())
    if wire is None or is_purged:
        return []
    goes = {m: held for m, held in last.held.items() if not case.models[m].stays}
    left = sum(held.high for held in goes.values())
    if not left:
        return []
    models = ", ".join(case.models[m].file or case.models[m].class_name for m in goes)
    return [Finding(
        kind="purge_between", saves=Bounds(sum(held.low for held in goes.values()), left),
        values={"sentence": "purge_at_end", "node": last.name, "node_id": last.node_id,
                "model": models, "after": True, **amounts(left=left)},
        measured_on={"node_id": last.node_id, "left_mib": in_mib(left)},
        node_ids=(last.prompt_node,), cost="seconds",
        edit={"steps": [insert(PURGE, f"end-{last.prompt_node}", wire, [])]},
    )]

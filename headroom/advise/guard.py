"""OOM Guard if a prompt ran out of memory, and if its peak is in a VAE.

While all goes well it frees nothing: it lowers the least memory that the run needs.
"""

from ..base.device import in_mib
from ..base.guards import guarded
from ..base.node_types import GUARD_CLASS
from ..guard.errors import OomGuardError
from .case import Case, Step
from .finding import Bounds, Finding, Json
from .steps import insert
from .words import amounts


def findings(case: Case, anywhere: bool = False) -> list[Finding]:
    """Return a finding for the node that failed, else for a VAE with the peak.

    None if no guard can stand before the node that failed, as before a loader with --gpu-only, or
    if one gave up there.
    `anywhere`: else for whatever node has the peak. All models are guarded on their way to the
    nodes that compute with them: on a smaller card another node may be the first one that fails.
    """
    failure = case.around.failure or {}
    if str(failure.get("error")).startswith(OomGuardError.__name__):
        return []
    failed = next((step for step in case.steps if step.node_id == failure.get("node_id")), None)
    step = failed or (case.top if anywhere or _has_vae_at_its_peak(case) else None)
    edit = [] if case.is_guarded else [
        insert(GUARD_CLASS, f"guard-{giver}-{output}", (giver, output), wires)
        for wires in guarded(case.graph).guards.values() for giver, output in [wires[0].source]]
    if step is None or not edit or (failed and not _is_behind(case, failed, edit)):
        return []
    return [_finding(case, step, edit, failed is not None)]


def _is_behind(case: Case, step: Step, edit: list[Json]) -> bool:
    guarded_nodes = {node for part in edit for node, _ in part["to"]}
    return (step.prompt_node not in case.graph.nodes
            or step.prompt_node in case.graph.below(*guarded_nodes))


def _has_vae_at_its_peak(case: Case) -> bool:
    return case.top is not None and case.top.prompt_node in case.prompt and any(
        wire.type == "VAE" for wire in case.graph.wires(case.top.prompt_node))


def _finding(case: Case, step: Step, edit: list[Json], failed: bool) -> Finding:
    """Return the finding. It saves what was missing, up to all weights and half of the results."""
    asked = round(((case.around.failure or {}).get("asked_mib") or 0) * 2**20) if failed else 0
    used = sum(held.high for m, held in step.held.items() if case.uses(step, m))
    made = max(step.peak.at_least - step.held_bytes, 0)
    nodes = list(dict.fromkeys(node for part in edit for node, _ in part["to"]))
    return Finding(
        kind="oom_guard", saves=Bounds(asked, max(used + made // 2, asked)),
        values={"node": step.name, "node_id": step.node_id, "failed": failed,
                **({"sentence": "oom_guard_failed"} if asked else {}),
                **amounts(peak=step.peak.at_least, **({"asked": asked} if asked else {}))},
        measured_on={"node_id": step.node_id, "peak_mib": in_mib(step.peak.at_least),
                     "weights_mib": in_mib(used), "made_mib": in_mib(made),
                     **({"asked_mib": in_mib(asked)} if asked else {})},
        node_ids=tuple(nodes), changes_picture=True, cost="seconds", edit={"steps": edit},
    )

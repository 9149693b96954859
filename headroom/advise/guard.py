"""OOM Guard if a prompt ran out of memory, and if its peak is in a VAE.

While all goes well it frees nothing: it lowers the least memory that the run needs.
"""

from ..base.device import in_mib
from ..base.guards import guarded
from ..base.node_types import GUARD_CLASS
from .case import Case, Step
from .finding import Finding, Json, Saves
from .steps import insert
from .words import amounts


def findings(case: Case) -> list[Finding]:
    """Return a finding for the node that failed, else for a VAE with the peak."""
    failed = _failed(case)
    step = failed or (case.top if case.top is not None and _takes_vae(case, case.top) else None)
    return _findings(case, step, failed is not None)


def anywhere(case: Case) -> list[Finding]:
    """Return the finding for the node that failed, else for the one with the peak."""
    failed = _failed(case)
    return _findings(case, failed or case.top, failed is not None)


def _findings(case: Case, step: Step | None, failed: bool) -> list[Finding]:
    edit = [] if case.is_guarded else edit_of(case)
    return [_finding(case, step, edit, failed)] if step is not None and edit else []


def _failed(case: Case) -> Step | None:
    wanted = (case.around.failure or {}).get("node_id")
    return next((step for step in case.steps if step.node_id == wanted), None)


def _finding(case: Case, step: Step, edit: list[Json], failed: bool) -> Finding:
    """The range: from what was missing, to all weights and half of what they computed."""
    asked = round(((case.around.failure or {}).get("asked_mib") or 0) * 2**20) if failed else 0
    used = sum(held.high for m, held in step.held.items() if case.uses(step, m))
    made = max(step.peak.at_least - step.held_bytes, 0)
    nodes = list(dict.fromkeys(node for part in edit for node, _ in part["to"]))
    return Finding(
        kind="oom_guard", saves=Saves(asked, max(used + made // 2, asked)),
        values={"node": step.name, "node_id": step.node_id, "failed": failed,
                **({"sentence": "oom_guard_failed"} if asked else {}),
                **amounts(peak=step.peak.at_least, **({"asked": asked} if asked else {}))},
        measured_on={"node_id": step.node_id, "peak_mib": in_mib(step.peak.at_least),
                     "weights_mib": in_mib(used), "made_mib": in_mib(made),
                     **({"asked_mib": in_mib(asked)} if asked else {})},
        node_ids=tuple(nodes), changes_picture=True, cost="seconds", edit={"steps": edit},
    )


def _takes_vae(case: Case, step: Step) -> bool:
    return step.prompt_node in case.prompt and any(
        wire.type == "VAE" for wire in case.graph.wires(step.prompt_node))


def edit_of(case: Case) -> list[Json]:
    """Return the steps that guard each model on its way to the nodes that compute with it.

    All of them, because on a smaller card another node may be the first one that fails.
    """
    return [insert(GUARD_CLASS, f"guard-{giver}-{output}", (giver, output), wires)
            for wires in guarded(case.graph).guards.values()
            for giver, output in [wires[0].source]]

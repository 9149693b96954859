"""OOM Guard where a prompt ran out of memory, and where its peak is in a VAE.

It gives nothing back while all goes well: it lowers what the run needs at least.
"""

from ..base.device import in_mib
from .case import Case, Step
from .finding import Finding, Json, Saves
from .steps import GUARD, insert
from .wires import Link
from .words import amounts

GUARDED = ("MODEL", "VAE", "UPSCALE_MODEL")


def findings(case: Case) -> list[Finding]:
    """Return a finding for the node that failed, else for a VAE that has the peak."""
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
    """The range: what was asked for and not there, and all weights with half of what they made."""
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
        case.wires.type_of(step.prompt_node, name, link) == "VAE"
        for name, link in case.wires.links(step.prompt_node)
    )


def edit_of(case: Case) -> list[Json]:
    """Return the steps that guard each model on its way to the nodes that compute with it.

    All of them: on a smaller card another node than this one may be the first that fails.
    """
    found: dict[Link, list[list[str]]] = {}
    for node_id in case.prompt:
        declared = case.wires.node_type(node_id)
        if declared is None or not declared.uses_models or _is_ours(case, node_id):
            continue
        for name, link in case.wires.links(node_id):
            kind = case.wires.type_of(node_id, name, link)
            if kind in GUARDED and not case.wires.passes(link, kind, GUARD):
                found.setdefault(link, []).append([node_id, name])
    return [insert(GUARD, f"guard-{link[0]}-{link[1]}", link, to) for link, to in found.items()]


def _is_ours(case: Case, node_id: str) -> bool:
    """Whether a node only hands a model on, whatever the types say."""
    return str(case.prompt[node_id]["class_type"]).startswith("Headroom")

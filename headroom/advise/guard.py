"""OOM Guard where a prompt ran out of memory, and where its peak is in a VAE."""

from .case import Case, Step
from .finding import Finding, Json, Saves
from .wires import Link
from .words import amounts

GUARD = "HeadroomOOMGuard"
INPUTS = {"free_other_models": True, "offload_weights": True, "split_batch": True,
          "tile_vae": True, "max_attempts": 8, "prefer": "same bits"}
GUARDED = ("MODEL", "VAE", "CLIP", "CONTROL_NET", "UPSCALE_MODEL")


def findings(case: Case) -> list[Finding]:
    """Return a finding for the node that failed, else for a VAE that has the peak."""
    step = _failed(case)
    if step is None:
        step = case.top if case.top is not None and _takes_vae(case, case.top) else None
    if step is None or step.prompt_node not in case.prompt:
        return []
    edit = _edit(case, step)
    return [_finding(case, step, edit)] if edit else []


def _failed(case: Case) -> Step | None:
    if not case.failure:
        return None
    wanted = case.failure.get("node_id")
    return next((step for step in case.steps if step.node_id == wanted), None)


def _finding(case: Case, step: Step, edit: list[Json]) -> Finding:
    """The guard gives nothing back while all goes well: it lowers what the node needs at least."""
    asked = round(((case.failure or {}).get("asked_mib") or 0) * 2**20)
    used = {m: held for m, held in step.held.items() if case.uses(step, m)}
    weights = sum(held.high for held in used.values())
    work = max(step.peak.at_least - sum(held.high for held in step.held.values()), 0)
    low = asked if case.failure else 0
    figures = {"node_id": step.node_id, "peak_mib": _mib(step.peak.at_least),
               "weights_mib": _mib(weights), "work_mib": _mib(work)}
    if asked:
        figures["asked_mib"] = _mib(asked)
    return Finding(
        kind="oom_guard", saves=Saves(low, max(weights + work // 2, low)),
        values={"node": step.title, "node_id": step.node_id,
                "sentence": "oom_guard_failed" if asked else "oom_guard",
                **amounts(peak=step.peak.at_least, asked=asked)},
        measured_on=figures, node_ids=(step.prompt_node,), cost="seconds",
        edit={"steps": edit},
    )


def _mib(amount: int) -> float:
    return round(amount / 2**20, 3)


def _takes_vae(case: Case, step: Step) -> bool:
    return step.prompt_node in case.prompt and any(
        case.wires.type_of(step.prompt_node, name, link) == "VAE"
        for name, link in case.wires.links(step.prompt_node)
    )


def _edit(case: Case, step: Step) -> list[Json]:
    """Guard each model that the node takes, for everybody who takes it."""
    found: dict[Link, Json] = {}
    for name, link in case.wires.links(step.prompt_node):
        kind = case.wires.type_of(step.prompt_node, name, link)
        if kind in GUARDED and case.prompt[link[0]]["class_type"] != GUARD:
            found.setdefault(link, {
                "op": "insert", "ref": f"guard-{link[0]}-{link[1]}", "class_type": GUARD,
                "inputs": dict(INPUTS), "from": list(link), "through": "model", "out": 0,
                "to": [[step.prompt_node, name]], "links": {},
            })
    return list(found.values())

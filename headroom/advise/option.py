"""A finding about what was on the device while a node ran; it may be chosen or not."""

from typing import Any

from ..base.device import in_mib
from ..base.said import joined, said
from .case import Case, Step, less_by_node
from .finding import NOTHING, Cost, Finding, Gone, Json
from .words import amounts


def option(
    kind: str, step: Step, steps: list[Json], gone: Gone,
    nodes: list[str], cost: Cost = "seconds", **values: Any,
) -> Finding:
    """Return a finding; what it saves is known when others are chosen too."""
    less = less_by_node(gone).get(step.node_id, NOTHING)
    return Finding(
        kind=kind, saves=NOTHING,
        values={"node": step.name, "node_id": step.node_id,
                **amounts(held=less.high, peak=step.peak.at_least), **values},
        measured_on={"node_id": step.node_id, "peak_mib": in_mib(step.peak.at_least),
                     "held_mib": in_mib(less.high)},
        node_ids=tuple(nodes), changes_picture=cost == "picture", cost=cost,
        edit={"steps": steps}, gone=gone,
    )


def named(case: Case, *models: str) -> str:
    """Return a user's names for models: their files, else their kinds and classes."""
    known = [case.models[model_id] for model_id in models]
    return joined(", ", [facts.file or said(
        "The {kind} {name}" if at == 0 else "the {kind} {name}",
        kind=facts.kind, name=facts.class_name) for at, facts in enumerate(known)])

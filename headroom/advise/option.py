"""A change that may become a finding: what it is, and what it takes off the device, and where."""

from dataclasses import dataclass
from typing import Any

from ..base.device import in_mib
from ..base.said import joined, said
from .case import NOTHING, Case, Gone, Step, less_by_node
from .finding import Cost, Finding, Json, Saves
from .words import amounts


@dataclass(frozen=True, eq=False)
class Option:
    """`gone`: what is no longer on the device while which nodes run."""

    finding: Finding
    gone: Gone


def option(
    kind: str, step: Step, steps: list[Json], gone: Gone,
    nodes: list[str], cost: Cost = "seconds", **values: Any,
) -> Option:
    """Return an option about what was on the device while `step` ran."""
    less = less_by_node(gone).get(step.node_id, NOTHING)
    finding = Finding(
        kind=kind, saves=Saves(0, 0),
        values={"node": step.name, "node_id": step.node_id,
                **amounts(held=less.high, peak=step.peak.at_least), **values},
        measured_on={"node_id": step.node_id, "peak_mib": in_mib(step.peak.at_least),
                     "held_mib": in_mib(less.high)},
        node_ids=tuple(nodes), changes_picture=cost == "picture", cost=cost,
        edit={"steps": steps},
    )
    return Option(finding, gone)


def named(case: Case, *models: str) -> str:
    """Return a user's names for models: their files, else their kinds and classes."""
    known = [case.models[model_id] for model_id in models]
    return joined(", ", [facts.file or said(
        "The {kind} {name}" if at == 0 else "the {kind} {name}",
        kind=facts.kind, name=facts.class_name) for at, facts in enumerate(known)])

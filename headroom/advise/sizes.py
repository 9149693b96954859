"""Sizes that grow within one run: torch keeps pieces of memory that the next size cannot use.

That is so with its native allocator; with expandable segments and with cudaMallocAsync the order
makes no difference in the median list (benchmarks/size_orders.py). Size Sorter hands the latents on
from large to small, Restore Order puts the pictures back.
"""

from collections.abc import Iterator

from ..base.device import in_mib
from .case import Case, Step
from .finding import Finding, Json, Saves
from .steps import insert
from .wires import Link
from .words import amounts

SORTER, RESTORE = "HeadroomSizeSorter", "HeadroomRestoreOrder"


def findings(case: Case) -> list[Finding]:
    """Return a finding for each sampler that works through a list of latents."""
    return [found for step in case.steps if (found := _finding(case, step)) is not None]


def _finding(case: Case, step: Step) -> Finding | None:
    if step.prompt_node not in case.prompt or not _order_matters(case):
        return None
    latent = _list_of_latents(case, step.prompt_node)
    ends = sorted(_pictures(case, step.prompt_node)) if latent is not None else []
    if latent is None or not ends:
        return None
    spare = max(other.spare_bytes for other in case.steps)
    return Finding(
        kind="size_sorter", saves=Saves(0, spare),
        values={"node": step.name, "node_id": step.node_id, **amounts(spare=spare)},
        measured_on={"node_id": step.node_id, "spare_mib": in_mib(spare)},
        node_ids=(step.prompt_node,), edit={"steps": _edit(case, latent, ends)},
    )


def _order_matters(case: Case) -> bool:
    known = case.around.allocator
    return known.get("backend", "native") == "native" and not known.get("expandable")


def _edit(case: Case, latent: Link, ends: list[Link]) -> list[Json]:
    steps = [insert(SORTER, "sorter", latent, case.wires.takers(latent))]
    return steps + [
        insert(RESTORE, f"restore-{end[0]}", end, _outputs(case, end), {"index": ["ref:sorter", 3]})
        for end in ends
    ]


def _list_of_latents(case: Case, node_id: str) -> Link | None:
    """Return the wire of a sampler's latents, where they and nothing else of it are a list."""
    declared = case.wires.node_type(node_id)
    if declared is None or "LATENT" not in declared.outputs:
        return None
    lists = [(name, link) for name, link in case.wires.links(node_id)
             if case.wires.is_list(link)]
    if len(lists) != 1 or case.wires.type_of(node_id, *lists[0]) != "LATENT":
        return None
    return None if _is_sorted(case, lists[0][1]) else lists[0][1]


def _is_sorted(case: Case, link: Link) -> bool:
    return any(case.prompt[node]["class_type"] == SORTER for node in case.wires.above(link[0]))


def _pictures(case: Case, start: str) -> Iterator[Link]:
    """Yield the outputs behind a node that end in nodes which show or save pictures."""
    for node_id in case.wires.behind(start):
        declared = case.wires.node_type(node_id)
        if declared is None:
            continue
        for number, kind in enumerate(declared.outputs):
            if kind == "IMAGE" and _outputs(case, (node_id, number)):
                yield node_id, number


def _outputs(case: Case, link: Link) -> list[list[str]]:
    """Return the inputs of output nodes that an output feeds."""
    found = []
    for taker, name in case.wires.takers(link):
        declared = case.wires.node_type(taker)
        if declared is not None and declared.is_output:
            found.append([taker, name])
    return found

"""Models that stay on the GPU while a node runs that does not use them: unload them before it.

One model is unloaded by an Offload Model, several by one Purge VRAM that keeps what the node uses.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ..base.graph import MODELS, Source, Wire
from ..base.loops import Loops, leaves_loop, loops_of
from .case import Case, Step
from .finding import NOTHING, Bounds, Finding, Json
from .option import named, option
from .steps import OFFLOAD, PURGE, alike, entry_wire, insert, wire_of


def options(case: Case, step: Step) -> Iterator[Finding]:
    """Yield the way to free what is idle while `step` runs; for encoders see encoders.py."""
    if step.prompt_node not in case.prompt:
        return
    idle = {m for m, held in case.idle(step).items()
            if held.high > 0 and case.models[m].kind != "text encoder"}
    steps, nodes, gone = {}, [], {}
    for place in _places(case, step, idle):
        spot = _spot(case, place, idle)
        made = _edit(case, place, idle, spot) if spot is not None else None
        if made is not None:
            # Nodes that wait on the same wire share the new node.
            steps[str(made["from"]), str(made["to"])] = made
            nodes.append(place.prompt_node)
            gone.update(_gone(case, place, idle))
    if steps:
        yield option("purge_between" if len(idle) > 1 else "offload_after", step,
                     list(steps.values()), gone, nodes, model=named(case, *sorted(idle)))


def _places(case: Case, step: Step, idle: set[str]) -> list[Step]:
    """Return `step` and others of its class before which nearly the same would be freed."""

    def freed(other: Step) -> int:
        return sum(held.high for m, held in case.idle(other).items() if m in idle)

    return [other for other in case.steps if idle and other.class_type == step.class_type
            and other.prompt_node in case.prompt and 2 * freed(other) >= freed(step)]


def _last_user(case: Case, step: Step, idle: set[str]) -> str | None:
    """Return the last node before `step` that used one of the models; None if none did."""
    before = case.steps[: case.steps.index(step)]
    used = [other.prompt_node for other in before if other.prompt_node in case.prompt
            and any(case.uses(other, m) for m in idle)]
    return used[-1] if used else None


class _Spot(NamedTuple):
    """Where the new node goes: between an output and inputs. `user`: the node before it."""

    wire: Source
    to: list[Wire]
    ref: str
    user: str | None = None


def _spot(case: Case, step: Step, idle: set[str]) -> _Spot | None:
    """Return a spot before a node, and after the last one that used the models.

    A node that waits only for a loader would unload them before they are used.
    """
    user, node_id = _last_user(case, step, idle), step.prompt_node
    wire = entry_wire(case, node_id, user, _loops_of_use(case, node_id, idle))
    if wire is None:
        return None
    if user is not None and user not in case.graph.above(node_id):
        if case.last_run(wire[0]) < case.last_run(user):
            return _behind(case, user)
    return _Spot(wire, alike(case, node_id, wire), f"before-{node_id}")


def _loops_of_use(case: Case, node_id: str, idle: set[str]) -> Loops:
    """Return the loops of a node in which one of the models is used in each turn."""
    loops = loops_of(case.graph)
    return Loops().union(*(loops[node_id] & loops.get(other.prompt_node, Loops())
                           for other in case.steps if any(case.uses(other, m) for m in idle)))


def _behind(case: Case, user: str) -> _Spot | None:
    declared = case.graph.node_type(user)
    for number in range(len(declared.outputs) if declared is not None else 0):
        if takers := case.graph.takers(user, number):
            return _Spot((user, number), takers, f"behind-{user}", user)
    return None


def _edit(case: Case, step: Step, idle: set[str], spot: _Spot) -> Json | None:
    given = wire_of(case, next(iter(idle))) if len(idle) == 1 else _kept(case, step)
    if len(idle) > 1 and given is not None and _waits(case, given, spot):
        given = None  # nothing to keep yet
    if given is not None and any(
            leaves_loop(case.graph, given, wire.taker) for wire in spot.to):
        given = None
    if _is_there(case, spot, given) or (given is not None and _waits(case, given, spot)):
        return None
    if len(idle) == 1:
        links = {"model": list(given)} if given is not None else None
        return insert(OFFLOAD, spot.ref, spot.wire, spot.to, links) if links else None
    if given is None:
        return insert(PURGE, spot.ref, spot.wire, spot.to)
    return insert(PURGE, spot.ref, spot.wire, spot.to, {"keep": list(given)}, unload="all but keep")


def _waits(case: Case, given: Source, spot: _Spot) -> bool:
    """Whether the node at the start of a wire comes after the new node."""
    above = set(case.graph.above(given[0]))
    return any(wire.taker in above for wire in spot.to)


def _is_there(case: Case, spot: _Spot, given: Source | None) -> bool:
    """Whether this node, or a purge, is on the wire already: a second one frees no more."""
    node = case.prompt[spot.wire[0]]
    return node["class_type"] == PURGE or (
        node["class_type"] == OFFLOAD and given is not None
        and node["inputs"].get("model") == list(given))


def _kept(case: Case, step: Step) -> Source | None:
    """Return the wire of the first model that the node uses."""
    wires = case.graph.wires(step.prompt_node)
    return next((wire.source for wire in wires if wire.type in MODELS), None)


def _gone(case: Case, step: Step, idle: set[str]) -> dict[tuple[str, str], Bounds]:
    """Return what is not on the device from `step` until each model is used again.

    If the node does not depend on the one that used it last, ComfyUI decides the order of both.
    """
    start, user = case.steps.index(step), _last_user(case, step, idle)
    is_sure = user is None or user in case.graph.above(step.prompt_node)
    found: dict[tuple[str, str], Bounds] = {}
    for model_id in idle & set(case.idle(step)):
        for other in case.steps[start : case.next_use(model_id, start)]:
            held = case.idle(other).get(model_id, NOTHING)
            found[other.node_id, model_id] = Bounds(held.low * is_sure, held.high)
    return found

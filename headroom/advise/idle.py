"""Models that stay on the GPU while a node runs that does not use them: let them go before it.

One of them goes with an Offload Model, several with one Purge VRAM that keeps what the node uses.
"""

from collections.abc import Iterator

from .case import NOTHING, Bounds, Case, Step
from .finding import Json
from .option import Option, named, option
from .steps import OFFLOAD, PURGE, alike, entry_wire, insert, wire_of
from .wires import TYPE_OF_KIND, Link


def options(case: Case, step: Step) -> Iterator[Option]:
    """Yield the way to free what is idle while `step` runs; encoders have ways of their own."""
    if step.prompt_node not in case.prompt:
        return
    idle = {m: held for m, held in case.idle(step).items()
            if held.high > 0 and case.models[m].kind != "text encoder"}
    if idle:
        yield from _options(case, step, idle)


def _options(case: Case, step: Step, idle: dict[str, Bounds]) -> Iterator[Option]:
    places = _places(case, step, set(idle))
    wires = {place: _wire(case, place, set(idle)) for place in places}
    steps, gone = [], {}
    for place, wire in wires.items():
        made = _edit(case, place, set(idle), wire) if wire is not None else None
        if made is not None:
            steps.append(made)
            gone.update(_gone(case, place, set(idle)))
    if not steps:
        return
    several = len(idle) > 1
    yield option(
        case, "purge_between" if several else "offload_after", step, _once(steps), gone,
        [place.prompt_node for place in wires],
        model=", ".join(named(case, m) for m in idle),
    )


def _once(steps: list[Json]) -> list[Json]:
    """Nodes that share the wire on which they wait share the new node as well."""
    found = {tuple(map(str, step["from"])) + (str(step["to"]),): step for step in steps}
    return list(found.values())


def _places(case: Case, step: Step, idle: set[str]) -> list[Step]:
    """Return `step` and the others of its class before which most of the same comes back."""
    return [other for other in case.steps if other.class_type == step.class_type
            and other.prompt_node in case.prompt
            and 2 * _bytes(case, other, idle) >= _bytes(case, step, idle)]


def _bytes(case: Case, step: Step, models: set[str]) -> int:
    return sum(held.high for m, held in case.idle(step).items() if m in models)


def _last_user(case: Case, step: Step, idle: set[str]) -> str | None:
    """Return the node that used one of the models last before `step`; None where none did."""
    before = case.steps[: case.steps.index(step)]
    used = [other.prompt_node for other in before if other.prompt_node in case.prompt
            and any(case.uses(other, m) for m in idle)]
    return used[-1] if used else None


def _wire(case: Case, step: Step, idle: set[str]) -> Link | None:
    return entry_wire(case, step.prompt_node, _last_user(case, step, idle))


def _edit(case: Case, step: Step, idle: set[str], wire: Link) -> Json | None:
    to, ref = alike(case, step.prompt_node, wire), f"before-{step.prompt_node}"
    if len(idle) == 1:
        given = wire_of(case, next(iter(idle)))
        if given is not None and step.prompt_node in case.wires.above(given[0]):
            return None  # that loader waits for this node
        links = {"model": list(given)} if given is not None else None
        return insert(OFFLOAD, ref, wire, to, links) if links else None
    keep = _kept(case, step)
    if keep is None:
        return insert(PURGE, ref, wire, to)
    return insert(PURGE, ref, wire, to, {"keep": list(keep)}, unload="all but keep")


def _kept(case: Case, step: Step) -> Link | None:
    """Return the wire of the first model that the node uses."""
    for name, link in case.wires.links(step.prompt_node):
        if case.wires.type_of(step.prompt_node, name, link) in TYPE_OF_KIND.values():
            return link
    return None


def _gone(case: Case, step: Step, idle: set[str]) -> dict[tuple[str, str], Bounds]:
    """Return what is away from `step` until each model is used again.

    Where the node does not depend on the one that used it last, the order of both is ComfyUI's.
    """
    start, user = case.steps.index(step), _last_user(case, step, idle)
    is_sure = user is None or user in case.wires.above(step.prompt_node)
    found: dict[tuple[str, str], Bounds] = {}
    for model_id in idle & set(case.idle(step)):
        for other in case.steps[start : case.next_use(model_id, start)]:
            held = case.idle(other).get(model_id, NOTHING)
            found[other.node_id, model_id] = Bounds(held.low * is_sure, held.high)
    return found

"""A model in float32 for which bfloat16 is enough: put Cast bf16 on its wire."""

from collections.abc import Iterator

from .case import CAST as SMALLER
from .case import Case, Step
from .finding import Bounds, Finding
from .option import named, option
from .steps import CAST, insert, wire_of
from .words import amounts

LEAST_SHARE = 0.5  # of a model's bytes that are float32
KEPT = 0.1  # of them that a cast may keep (norms, embeddings of time)


def options(case: Case, step: Step) -> Iterator[Finding]:
    """Yield a cast of each float32 model that is there while `step` runs."""
    if not case.around.can_bf16:
        return
    for model_id in step.held:
        facts = case.models[model_id]
        if facts.float32_bytes < LEAST_SHARE * facts.total_bytes or not case.owners[model_id]:
            continue
        wire = wire_of(case, model_id)
        takers = case.graph.takers(*wire) if wire is not None else []
        ends = [] if wire is None else [wire[0], *(taker.taker for taker in takers)]
        is_cast = any(case.prompt[node]["class_type"] == CAST for node in ends)
        if wire is None or not takers or is_cast:
            continue
        share = min(facts.float32_bytes / max(facts.total_bytes, 1), 1.0) / 2
        gone = {(other.node_id, SMALLER + model_id): _less(case, other, model_id, share)
                for other in case.steps if model_id in other.held}
        cast = insert(CAST, f"cast-{wire[0]}-{wire[1]}", wire, takers)
        yield option("cast_bf16", step, [cast], gone, [wire[0]],
                     cost="picture", model=named(case, model_id), output=wire[1],
                     **amounts(size=step.held[model_id].high))


def _less(case: Case, step: Step, model_id: str, share: float) -> Bounds:
    """Return what a cast saves: half of the weights, and of the results if it computes in bfloat16.

    A model that was loaded while the node ran was on the device when it computed.
    """
    held = step.held[model_id]
    if model_id in step.grew:
        held = Bounds(held.high, held.high)
    is_diffusion = case.models[model_id].kind in ("diffusion model", "ControlNet", "VAE")
    computes = is_diffusion and case.uses(step, model_id)
    work = max(step.peak.at_least - step.held_bytes, 0) if computes else 0
    return Bounds(round(held.low * share * (1 - KEPT)), round(held.high * share) + work // 2)

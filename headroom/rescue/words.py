"""The sentences about a prompt that ran out of memory and its rerun."""

from collections.abc import Sequence

from ..base.device import MIB
from ..base.error_table import Row
from ..base.graph import Wire, title_given
from ..base.said import Said, joined, said
from ..host.adapter import has_flag
from ..measure.report import mib_text
from .failed_prompt import FailedPrompt, ModelOnDevice
from .what_runs import WhatRuns

MODELS_NAMED = NODES_NAMED = 3


def what_failed(failure: FailedPrompt) -> Said:
    """Return which node failed, what it asked for and what held the memory, as one sentence."""
    node = {"title": failure.title, "node_id": failure.node_id}
    in_ram = failure.where == "RAM"
    memory = said("memory_ram", "RAM") if in_ram else said("memory_gpu", "GPU memory")
    asked, held = _asked(failure), _held(failure)
    text = f"{_node(failure)} ran out of {memory}{asked}{held}."
    return said("rescue_failed", text, memory=memory, asked=asked, held=held, **node)


def runs_again(failure: FailedPrompt, runs: WhatRuns, keeps_nothing: bool) -> str:
    """Return that the prompt runs again, and how much of it."""
    cost = _cost(failure, runs, keeps_nothing)
    text = f"It runs again with OOM Guard: {cost}."
    again = said("rescue_runs", text, cost=cost)
    return joined(" ", [what_failed(failure), again, *_differing(failure, runs)])


def can_run_again(failure: FailedPrompt, runs: WhatRuns, keeps_nothing: bool) -> str:
    """Return that a rerun is there for the asking, and how much of the prompt would run."""
    cost = _cost(failure, runs, keeps_nothing)
    offer = said("rescue_offer", f"It can run again with OOM Guard: {cost}.", cost=cost)
    return joined(" ", [what_failed(failure), offer, *_differing(failure, runs)])


def _cost(failure: FailedPrompt, runs: WhatRuns, keeps_nothing: bool) -> Said:
    if keeps_nothing:
        return said("rescue_all", (
            "everything runs again, because this ComfyUI keeps no results (--cache-none)"))
    if runs.is_everything:
        return said("rescue_all_gone", (
            "everything runs again, because ComfyUI's cache no longer has any of it"))
    if runs.again:
        nodes = _nodes(failure, runs.again)
        text = f"what had finished comes from the cache, except for {nodes}"
        return said("rescue_some", text, nodes=nodes)
    if not runs.is_known:
        return said("rescue_maybe", (
            "what had finished comes from the cache where ComfyUI still has it"))
    return said("rescue_rest", "what had finished comes from the cache")


def _differing(failure: FailedPrompt, runs: WhatRuns) -> list[Said]:
    if not runs.differing:
        return []
    nodes = _nodes(failure, runs.differing)
    return [said("rescue_differs", f"The result may be another one, because of {nodes}.",
                 nodes=nodes)]


def _nodes(failure: FailedPrompt, node_ids: Sequence[str]) -> Said:
    named = joined(", ", [_named(failure, node_id) for node_id in node_ids[:NODES_NAMED]])
    more = len(node_ids) - NODES_NAMED
    others = said("rescue_others", f" and {more} more", count=more) if more > 0 else ""
    return said("rescue_nodes", f"{named}{others}", named=named, others=others)


def _named(failure: FailedPrompt, node_id: str) -> Said:
    node = failure.prompt[node_id]
    title = title_given(node) or str(node["class_type"])
    return said("rescue_node", f"{title} (node {node_id})", title=title, node_id=node_id)


def cannot_run_again(failure: FailedPrompt, why: str) -> str:
    """Return that there is no rerun, and why."""
    cannot = said("rescue_cannot", f"It cannot run again: {why}", why=why)
    return joined(" ", [what_failed(failure), cannot, *_what_helps(failure.row)])


def _what_helps(row: Row | None, is_guarded: bool = False) -> list[Said]:
    if row is None:
        return []
    do = joined("; ", row.advice(has_flag, is_guarded))
    return [said("rescue_helps", f"What helps: {do}.", do=do)]


def refused_by_host(why: str) -> Said:
    """Return that ComfyUI refuses a prompt, in whose words."""
    return said("rescue_refused", f"ComfyUI refuses the prompt: {why}", why=why)


def is_second_try(prompt_id: str, first_id: str) -> Said:
    """Return that a prompt had its rerun already, being one itself."""
    return said("refused_second", (
        f"Prompt {prompt_id} was itself the second try of prompt {first_id}: "
        "a prompt is run again once."
    ))


def was_run_again(prompt_id: str, new_id: str | None) -> Said:
    """Return that a prompt had its rerun already."""
    return said("refused_again", f"Prompt {prompt_id} was run again already, as prompt {new_id}.")


def is_unknown(prompt_id: str) -> Said:
    """Return that there is no such prompt."""
    text = f"No prompt {prompt_id} is known: it is not in ComfyUI's history."
    return said("refused_unknown", text)


def ended_otherwise(prompt_id: str, row: Row | None = None) -> Said:
    """Return that a prompt has not failed, or not for want of memory; `row`: what is known of it.
    """
    text = f"Prompt {prompt_id} did not end in an out-of-memory error."
    if row is None:
        return said("refused_other_error", text)
    what, why = row.meaning(), row.reason()
    return said("refused_no_help", f"A rerun would not help: {what} {why}", what=what, why=why)


def failed_twice(second: FailedPrompt, first: FailedPrompt) -> str:
    """Return the error of a rerun, which names the one of the first too."""
    now, before = what_failed(second), what_failed(first)
    twice = said("rescue_twice", (
        f"The second try of prompt {first.prompt_id} ran out of memory as well: "
        f"{now} In the first try, {before}"
    ), now=now, before=before)
    return joined(" ", [twice, *_what_helps(second.row, is_guarded=True)])


def second_try(first: FailedPrompt) -> Said:
    """Return what the final error of a guard says about the first run."""
    failed = what_failed(first)
    text = f"This was the second try of prompt {first.prompt_id}: {failed}"
    return said("rescue_second", text, failed=failed)


def not_guarded(left: Sequence[Wire]) -> str:
    """Return which wires could not be guarded; nothing where there are none."""
    if not left:
        return ""
    wires = joined(", ", [_wire(wire) for wire in left])
    return said("rescue_not_guarded", f"Not guarded: what comes through {wires}.", wires=wires)


def _wire(wire: Wire) -> Said:
    text = f"`{wire.input}` ({wire.given}) of node {wire.taker}"
    return said("rescue_wire", text, input=wire.input, type=wire.given, node_id=wire.taker)


def _node(failure: FailedPrompt) -> str:
    return f"{failure.title} (node {failure.node_id})"


def _asked(failure: FailedPrompt) -> str:
    asked = failure.asked_bytes
    if asked is None:
        return ""
    return said("rescue_asked", f" asking for {mib_text(asked)}", asked_mib=asked / MIB)


def _held(failure: FailedPrompt) -> str:
    named = failure.held[:MODELS_NAMED]
    if not named:
        return ""
    models = joined(", ", [_model(one) for one in named])
    more = len(failure.held) - len(named)
    others = said("rescue_others", f" and {more} more", count=more) if more else ""
    text = f" while these models were loaded: {models}{others}"
    return said("rescue_held", text, models=models, others=others)


def _model(held: ModelOnDevice) -> Said:
    name = held.file or held.class_name
    text = f"{name} ({held.kind}) {mib_text(held.loaded_bytes)}"
    return said("rescue_model", text, name=name, kind=held.kind,
                loaded_mib=held.loaded_bytes / MIB)

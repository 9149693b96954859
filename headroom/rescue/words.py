"""The sentences about reruns, and about the queue that a server left when it ended."""

from collections.abc import Sequence

from ..base.device import MIB
from ..base.error_table import Row
from ..base.graph import Wire
from ..base.prompt_node import title_of
from ..base.said import Said, joined, said
from ..host.adapter import has_flag
from ..models.foreign import NOTABLE_AFTER_RUN, Foreign, foreign_models
from .failed_prompt import FailedPrompt
from .queue_file import KeptPrompt, Sample
from .setup import WhatRuns

MODELS_NAMED = NODES_NAMED = 3
PLAIN_ROWS = ("device", "ram")  # of the table of errors: they say which memory ran out, no more


def what_failed(failure: FailedPrompt) -> Said:
    """Return a sentence: which node failed, what it asked for, and what held the memory."""
    if failure.is_stop:
        return said("{title} (node {node_id}) was stopped before RAM ran out.",
                    title=failure.title, node_id=failure.node_id)
    memory = said("RAM" if failure.where == "RAM" else "GPU memory")
    asked = "" if failure.asked_bytes is None else said(
        " asking for {asked_mib}", asked_mib=failure.asked_bytes / MIB)
    return said("{title} (node {node_id}) ran out of {memory}{asked}{held}.", title=failure.title,
                node_id=failure.node_id, memory=memory, asked=asked, held=_held(failure))


def runs_again(failure: FailedPrompt, runs: WhatRuns, is_offer: bool = False) -> str:
    """Return that the prompt runs again, or can, and how much of it."""
    cost = _cost(failure, runs)
    again = said("It can run again with OOM Guard: {cost}." if is_offer
                 else "It runs again with OOM Guard: {cost}.", cost=cost)
    return joined(" ", [what_failed(failure), again, *_also(failure, runs)])


def _cost(failure: FailedPrompt, runs: WhatRuns) -> Said:
    if runs.is_everything:
        return said("everything runs again, because ComfyUI's cache has none of it")
    if runs.again:
        return said("what had finished comes from the cache, except for {nodes}",
                    nodes=_nodes(failure, runs.again))
    if not runs.is_known:
        return said("what had finished comes from the cache where ComfyUI still has it")
    return said("what had finished comes from the cache")


def _also(failure: FailedPrompt, runs: WhatRuns) -> list[Said]:
    row = failure.row
    also = [] if row is None or row.id in PLAIN_ROWS else [row.what]
    if failure.where == "RAM":
        also.append(said("RAM is freed first: models go to disk, and ComfyUI's cache drops what "
                         "this prompt does not use."))
    if runs.paid:
        also.append(said("These nodes use their paid service a second time: {nodes}.",
                         nodes=_nodes(failure, runs.paid)))
    if runs.differing:
        also.append(said("The result may be different because of {nodes}.",
                         nodes=_nodes(failure, runs.differing)))
    return also


def _nodes(failure: FailedPrompt, node_ids: Sequence[str]) -> str:
    named = [said("{title} (node {node_id})", title=title_of(failure.prompt, node_id),
                  node_id=node_id) for node_id in node_ids[:NODES_NAMED]]
    return _some(named, len(node_ids))


def _some(named: Sequence[str], count: int) -> str:
    """Return these as a list, and the number of those that are not named."""
    names = joined(", ", named)
    if count == len(named):
        return names
    return said("{names} and {count} more", names=names, count=count - len(named))


def cannot_run_again(failure: FailedPrompt, why: str) -> str:
    cannot = said("It cannot run again: {why}", why=why)
    return joined(" ", [what_failed(failure), cannot, *_what_helps(failure.row)])


def guard_gave_up(failure: FailedPrompt) -> str:
    would_not = said("A rerun would not help: OOM Guard has already tried what it would do.")
    return joined(" ", [what_failed(failure), would_not, *_what_helps(failure.row, True)])


def _what_helps(row: Row | None, is_guarded: bool = False) -> list[Said]:
    if row is None:
        return []
    do = joined("; ", row.advice(has_flag, is_guarded))
    return [said("What helps: {do}.", do=do)]


def refused_by_host(why: str) -> Said:
    return said("ComfyUI refuses the prompt: {why}", why=why)


def is_rerun(prompt_id: str, first_id: str) -> Said:
    return said(
        "Prompt {prompt_id} was itself the rerun of prompt {first_id}: a prompt is run again once.",
        prompt_id=prompt_id, first_id=first_id)


def was_run_again(prompt_id: str, new_id: str | None) -> Said:
    return said("Prompt {prompt_id} was run again already, as prompt {new_id}.",
                prompt_id=prompt_id, new_id=str(new_id))


def is_unknown(prompt_id: str) -> Said:
    return said("No prompt {prompt_id} is known: it is not in ComfyUI's history.",
                prompt_id=prompt_id)


def ended_otherwise(prompt_id: str, row: Row | None) -> Said:
    """Return that a prompt did not fail, or not because of memory; `row`: what is known of it."""
    if row is None:
        return said("Prompt {prompt_id} did not end in an out-of-memory error.",
                    prompt_id=prompt_id)
    return said("A rerun would not help: {what} {why}", what=row.what, why=row.why)


def failed_twice(second: FailedPrompt, first: FailedPrompt) -> str:
    """Return the error of a rerun, which also names the error of the first run.

    It names the models of packs too, because a rerun unloads ComfyUI's only.
    """
    twice = said(
        "The rerun of prompt {prompt_id} ran out of memory as well: {now} In the first run, "
        "{before}",
        prompt_id=first.prompt_id, now=what_failed(second), before=what_failed(first))
    stay = [] if second.where == "RAM" else foreign_models(least_bytes=NOTABLE_AFTER_RUN)
    return joined(" ", [twice, *map(_stays, stay), *_what_helps(second.row, is_guarded=True)])


def _stays(one: Foreign) -> Said:
    classes = ", ".join(one.classes[:MODELS_NAMED])
    return said("{held_mib} of the GPU are in {models}, which ComfyUI does not unload.",
                held_mib=one.bytes / MIB,
                models=classes if one.pack is None else f"{one.pack} ({classes})")


def not_guarded(left: Sequence[Wire]) -> str:
    """Return which wires may bring models without a guard; empty if none does."""
    if not left:
        return ""
    wires = [said("`{input}` ({type}) of node {node_id}", input=wire.input, type=wire.given,
                  node_id=wire.taker) for wire in left]
    return said("Not guarded: models that come through {wires}, unless they passed a guard before.",
                wires=joined(", ", wires))


def _held(failure: FailedPrompt) -> str:
    if not failure.held:
        return ""
    named = [said("{name} ({kind}) {loaded_mib}", name=model.file or model.class_name,
                  kind=model.kind, loaded_mib=loaded / MIB)
             for model, _, loaded in failure.held[:MODELS_NAMED]]
    return said(" while these models were loaded: {models}",
                models=_some(named, len(failure.held)))


def sentence_about(ran: KeptPrompt | None, samples: Sequence[Sample], waiting: int) -> str:
    """Return what ran when the server ended, with how much RAM, and how many had not run."""
    parts: list[str] = []
    if ran is not None:
        samples = samples[ran.samples_before :]
        parts.append(_what_ran(ran, samples))
        if (growth := _growth(ran, samples)) is not None:
            parts.append(growth)
    if waiting == 1:
        parts.append(said("1 prompt had not run."))
    elif waiting or not parts:
        parts.append(said("{count} prompts had not run.", count=waiting))
    return joined(" ", parts)


def _what_ran(ran: KeptPrompt, samples: Sequence[Sample]) -> Said:
    if not samples:
        return said("The server ended while prompt {prompt_id} ran.", prompt_id=ran.prompt_id)
    last = samples[-1]
    memory = {"rss_mib": last.rss_bytes / MIB, "free_mib": last.room_bytes / MIB}
    if last.node_id is None:
        return said("The server ended while prompt {prompt_id} ran, with {rss_mib} of RAM in use "
                    "by it and {free_mib} left.", prompt_id=ran.prompt_id, **memory)
    return said("The server ended while {title} (node {node_id}) of prompt {prompt_id} ran, with "
                "{rss_mib} of RAM in use by it and {free_mib} left.",
                title=title_of(ran.prompt, last.node_id), node_id=last.node_id,
                prompt_id=ran.prompt_id, **memory)


def _growth(ran: KeptPrompt, samples: Sequence[Sample]) -> Said | None:
    """Return the node in which the server's RAM grew most in its last minutes; None if in none."""
    grown: dict[str, int] = {}
    for one, after in zip(samples, samples[1:], strict=False):
        if one.node_id is not None:
            grown[one.node_id] = grown.get(one.node_id, 0) + after.rss_bytes - one.rss_bytes
    node_id = max(grown, key=lambda one: grown[one], default=None)
    if node_id is None or grown[node_id] < MIB:
        return None
    return said("In its last minutes its RAM grew most in {title} (node {node_id}): {grew_mib}.",
                title=title_of(ran.prompt, node_id), node_id=node_id, grew_mib=grown[node_id] / MIB)


def nothing_left() -> Said:
    return said("There are no prompts of an earlier server, or somebody has decided about them "
                "already.")

"""The sentences about a prompt that ran out of memory and its second life."""

from collections.abc import Sequence

from ..measure.report import mib_text
from .failure import Failure
from .guarded_prompt import Left

MODELS_NAMED = 3


def what_failed(failure: Failure) -> str:
    """Return which node failed, what it asked for and what held the memory, as one sentence."""
    if failure.is_incomplete:
        return (
            f"Memory ran out in {_node(failure)}, and ComfyUI went on without a part of a LoRA or "
            "ControlNet: the result is not what was asked for."
        )
    memory = "RAM" if failure.where == "RAM" else "GPU memory"
    asked = failure.asked_bytes
    wanted = "" if asked is None else f" asking for {mib_text(asked)}"
    return f"{_node(failure)} ran out of {memory}{wanted}{_held(failure)}."


def runs_again(failure: Failure, new_id: str, keeps_nothing: bool) -> str:
    """Return that the prompt runs again, and how much of it."""
    cost = (
        "everything runs again, because this ComfyUI keeps no results (--cache-none)"
        if keeps_nothing else "what had finished comes from the cache"
    )
    return f"{what_failed(failure)} It runs again with OOM Guard as prompt {new_id}: {cost}."


def can_run_again(failure: Failure) -> str:
    """Return that a second life is there for the asking."""
    return f"{what_failed(failure)} It can run again with OOM Guard."


def failed_twice(second: Failure, first: Failure) -> str:
    """Return the error of a second life, which names the one of the first too."""
    return (
        f"The second try of prompt {first.prompt_id} ran out of memory as well: "
        f"{what_failed(second)} In the first try, {what_failed(first)}"
    )


def second_try(first: Failure) -> str:
    """Return what the final error of a guard says about the first life."""
    return f"This was the second try of prompt {first.prompt_id}: {what_failed(first)}"


def not_guarded(left: Sequence[Left]) -> str:
    """Return which wires could not be guarded; nothing where there are none."""
    if not left:
        return ""
    wires = ", ".join(f"`{wire.input}` ({wire.type}) of node {wire.node_id}" for wire in left)
    return f"Not guarded: what comes through {wires}."


def _node(failure: Failure) -> str:
    return f"{failure.title} (node {failure.node_id})"


def _held(failure: Failure) -> str:
    named = failure.held[:MODELS_NAMED]
    if not named:
        return ""
    models = [
        f"{one.file or one.class_name} ({one.kind}) {mib_text(one.loaded_bytes)}" for one in named
    ]
    more = len(failure.held) - len(named)
    others = f" and {more} more" if more else ""
    return f" while these models were loaded: {', '.join(models)}{others}"

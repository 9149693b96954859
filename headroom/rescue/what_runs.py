"""What of a prompt runs when it runs again, told before it is queued."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.prompt_graph import Prompt, is_link
from .failed_prompt import FailedPrompt
from .wires import behind

SEEDS = ("seed", "noise_seed")


@dataclass(frozen=True)
class WhatRuns:
    """Node ids. `again`: had finished, and run once more. `differing`: those of them that may give
    another result. `is_known`: somebody could see what ComfyUI's cache holds; without that, `again`
    are those that are never in it.
    """

    again: tuple[str, ...]
    differing: tuple[str, ...]
    is_everything: bool
    is_known: bool


def probably_cached(failure: FailedPrompt, prompt: Prompt) -> frozenset[str]:
    """Return what ComfyUI should have in its cache: what had finished, and is kept at all.

    A node whose mark of change is NaN never comes out of it, nor does anything behind it.
    """
    never = [node_id for node_id, mark in failure.marks.items() if not is_same_mark(mark, mark)]
    return failure.finished - behind(prompt, never)


def what_runs(
    failure: FailedPrompt, prompt: Prompt, outputs: Sequence[str], cached: Collection[str],
    marks: Mapping[str, Any] | None,
) -> WhatRuns:
    """Return what runs of `prompt`, that of `failure` with guards, to make `outputs`.

    `cached` come from the cache, with all that stands above them. `marks`: the change marks as
    they are now; None where nobody could see them.
    """
    runs = _needed(prompt, outputs, cached)
    again = [node_id for node_id, _ in failure.prompt.items()
             if node_id in runs and node_id in failure.finished]
    differing = [node_id for node_id in again if _may_differ(failure, node_id, marks)]
    is_everything = bool(again) and not cached
    return WhatRuns(tuple(again), tuple(differing), is_everything, marks is not None)


def _needed(prompt: Prompt, outputs: Sequence[str], cached: Collection[str]) -> set[str]:
    """Return the outputs and all above them, as far as the cache does not end the way there."""
    found: set[str] = set()
    pending = list(outputs)
    while pending:
        node_id = pending.pop()
        if node_id in prompt and node_id not in cached and node_id not in found:
            found.add(node_id)
            pending += [value[0] for value in prompt[node_id]["inputs"].values() if is_link(value)]
    return found


def _may_differ(failure: FailedPrompt, node_id: str, marks: Mapping[str, Any] | None) -> bool:
    """Whether a node says so: by a change mark that is another one now, or a seed below 0."""
    before = failure.marks.get(node_id)
    now = before if marks is None else marks.get(node_id)
    inputs = failure.prompt[node_id]["inputs"]
    seeds = [inputs.get(name) for name in SEEDS]
    return not is_same_mark(before, now) or any(
        isinstance(seed, (int, float)) and seed < 0 for seed in seeds
    )


def is_same_mark(one: Any, other: Any) -> bool:
    """Return whether a node's change mark has stayed the same, which NaN never does."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_same_mark, one, other))
    return bool(one == other)

"""How a prompt will run again: with which guards, for which outputs, and which nodes run.

All of it is known before it is queued. `host` in this folder is headroom/host/queue.py.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..base.graph import Graph
from ..base.guards import Guarded, guarded
from ..base.loops import keeps_iterations, nodes_that_change_turns
from ..base.node_types import Registry
from ..host.types import Cached
from .failed_prompt import FailedPrompt

SEEDS = ("seed", "noise_seed")


@dataclass(frozen=True)
class WhatRuns:
    """Node ids. `again`: finished nodes that will run once more. `differing`: those of them whose
    result may be different. `is_known`: ComfyUI's cache could be read; else it is taken to have
    every finished node. `turns`: nodes in loops of which finished turns are in the cache. `paid`:
    API nodes that had asked their service, and ask it once more.
    """

    again: tuple[str, ...]
    differing: tuple[str, ...]
    is_everything: bool
    is_known: bool
    turns: frozenset[str] = frozenset()
    paid: tuple[str, ...] = ()


class RerunSetup(NamedTuple):
    guarded: Guarded
    outputs: list[str]
    runs: WhatRuns
    cached: frozenset[str]


def setup_of(failure: FailedPrompt, host: Any, registry: Registry) -> RerunSetup:
    """Return the prompt with guards, except where a guard would cost a node its cached result."""
    graph = Graph(copy.deepcopy(failure.prompt), registry)  # ComfyUI changes what it runs
    seen: Cached | None = host.cached_now(failure.prompt_id, graph.nodes)
    cached = failure.finished if seen is None else seen.nodes - failure.wrong
    # A guard before the failed node changes the cache key of all nodes after it, also in the first
    # turns of a loop, whose nodes had finished.
    cached = cached - graph.below(failure.node_id)
    if host.keeps_no_results():
        cached = frozenset()
    found = guarded(graph, unfinished(graph, failure.node_id, cached) if cached else None)
    # Finished outputs are in the history of the first run. They are not written a second time even
    # if their cached result is lost.
    outputs = [out for out in failure.outputs if out not in failure.finished]
    wanted = outputs or list(failure.outputs)
    marks = None if seen is None else seen.marks
    runs = what_runs(failure, Graph(found.prompt, registry), wanted, cached, marks)
    return RerunSetup(found, wanted, runs, cached)


def unfinished(graph: Graph, failed: str, cached: Collection[str]) -> set[str]:
    """Return the nodes whose inputs may change: the failed one, and those that are not cached.

    The inputs of a cached node must not change, or its cache key would change. For example a lazy
    switch has finished without the branch that it did not take.
    """
    return (set(graph.nodes) - set(graph.above(*cached))) | ({failed} & set(graph.nodes))


def what_runs(
    failure: FailedPrompt, graph: Graph, outputs: Sequence[str], cached: Collection[str],
    marks: Mapping[str, Any] | None,
) -> WhatRuns:
    """Return which nodes of `graph`, the prompt of `failure` with guards, run to make `outputs`.

    `cached` nodes come from the cache, so what is above them does not run. `marks`: the change
    marks as they are now; None if they could not be read.
    """
    runs = _needed(graph, outputs, cached)
    created = frozenset(one for maker, one in failure.created if maker in runs)
    turns = frozenset(one for one in created & set(graph.nodes)
                      if _turns_are_kept(failure, graph, one))
    again = [node_id for node_id, _ in failure.prompt.items()
             if node_id in (runs & failure.finished) | (created - turns)]
    differing = [node_id for node_id in again if _may_differ(failure, node_id, marks)]
    is_everything = bool(again) and not cached
    asked = {*again, *(failure.begun & runs)}
    paid = [node_id for node_id in graph.nodes if node_id in asked
            and (kind := graph.node_type(node_id)) is not None and kind.is_paid]
    return WhatRuns(tuple(again), tuple(differing), is_everything, marks is not None,
                    turns, tuple(paid))


def _needed(graph: Graph, outputs: Sequence[str], cached: Collection[str]) -> set[str]:
    """Return the outputs and all nodes above them, up to nodes that are in the cache."""
    found: set[str] = set()
    pending = list(outputs)
    while pending:
        node_id = pending.pop()
        if node_id in graph.nodes and node_id not in cached and node_id not in found:
            found.add(node_id)
            pending += [wire.giver for wire in graph.wires(node_id)]
    return found


def _turns_are_kept(failure: FailedPrompt, graph: Graph, node_id: str) -> bool:
    """Whether a node's result in a loop stays valid: no node in the loop or above has changed."""
    return keeps_iterations(graph, node_id) and all(
        one in failure.prompt and failure.prompt[one]["inputs"] == graph.nodes[one]["inputs"]
        for one in nodes_that_change_turns(graph, node_id))


def _may_differ(failure: FailedPrompt, node_id: str, marks: Mapping[str, Any] | None) -> bool:
    """Whether a node says that it changes: its change mark is different now, or its seed is < 0."""
    before = failure.marks.get(node_id)
    now = before if marks is None else marks.get(node_id)
    inputs = failure.prompt[node_id]["inputs"]
    seeds = [inputs.get(name) for name in SEEDS]
    return not is_same_mark(before, now) or any(
        isinstance(seed, (int, float)) and seed < 0 for seed in seeds
    )


def is_same_mark(one: Any, other: Any) -> bool:
    """Return whether a node's change mark is the same as before; NaN never is."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_same_mark, one, other))
    return bool(one == other)

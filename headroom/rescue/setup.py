"""How a prompt will run again: with which guards, for which outputs, and which nodes run.

`host` in this folder is headroom/host/queue.py.
"""

import copy
from typing import Any, NamedTuple

from ..base.graph import Graph
from ..base.guards import Guarded, guarded
from ..base.node_types import Registry
from ..host.types import Cached
from .failed_prompt import FailedPrompt
from .what_runs import WhatRuns, probably_cached, unfinished, what_runs


class RerunSetup(NamedTuple):
    guarded: Guarded
    outputs: list[str]
    runs: WhatRuns
    cached: frozenset[str]


def setup_of(failure: FailedPrompt, caches: Any, host: Any, registry: Registry) -> RerunSetup:
    """Return the prompt with guards, except where a guard would cost a node its cached result."""
    graph = Graph(copy.deepcopy(failure.prompt), registry)  # ComfyUI changes what it runs
    seen: Cached | None = host.cached_now(caches, failure.prompt_id, graph.nodes)
    cached = probably_cached(failure, graph) if seen is None else seen.nodes - failure.wrong
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

"""What RAM grows by with each run of the same nodes, and the node in which it grows.

A node that keeps something of each run (a list in its module, frames on its object) adds about as
much as RAM grows by. A node with a large result adds more, and gives it back before the next run.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ..base.device import MIB, in_mib
from .run import Run
from .turns import rate_of

MIN_RUNS = 5
MIN_BYTES = 16 * MIB  # a run


class Level(NamedTuple):
    """This process's RAM before and after a node of one run."""

    before_bytes: int
    after_bytes: int
    title: str


Levels = dict[tuple[str, str], Level]  # by the node's id on the canvas and its class


def levels_of(run: Run) -> Levels:
    """Return the levels of each node that ran to its end and stands on the canvas by itself."""
    found: Levels = {}
    for record in run.nodes.records.values():
        info = record.info
        before = record.before.rss_bytes if record.before is not None else None
        after = record.after.rss_bytes if record.after is not None else None
        is_own = info.node_id == info.display_node_id and record.status == "done"
        if is_own and before is not None and after is not None:
            found[info.node_id, info.class_type] = Level(before, after, info.title)
    return found


def grows_over_runs(runs: Sequence[Levels]) -> list[dict[str, object]]:
    """Return the node of the last run in which RAM grows with each of its runs, as JSON.

    `runs` oldest first. Only the last MIN_RUNS runs of a node count, without the first of all,
    in which models are loaded.
    """
    best: tuple[float, dict[str, object]] | None = None
    for node in runs[-1] if runs else ():
        all_levels = [run[node] for run in runs if node in run]
        if len(all_levels) < MIN_RUNS:
            continue
        levels = all_levels[1:][-MIN_RUNS:]
        rate = rate_of([level.after_bytes for level in levels])
        own = sum(level.after_bytes - level.before_bytes for level in levels) / len(levels)
        if rate < MIN_BYTES or own < rate / 2:
            continue
        distance = abs(own - rate)
        if best is None or distance < best[0]:
            best = distance, {
                "display_node_id": node[0], "class_type": node[1], "title": levels[-1].title,
                "mib_a_run": in_mib(rate), "runs": len(all_levels)}
    return [] if best is None else [best[1]]

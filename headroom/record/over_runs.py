"""Find by how much RAM grows with each run of the same nodes, and in which node it grows.

A node that keeps data of each run (a list in its module, frames on its object) adds about as much
as RAM grows by. A node with a large result adds more, but the result is freed before the next run.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..base.device import MIB, in_mib
from .run import Run
from .turns import rate_of

MIN_RUNS = 5
MIN_BYTES = 16 * MIB  # in each run
SHARE_FOUND = 0.5  # of the growth: so much must be found with its holder


class Level(NamedTuple):
    """This process's RAM before and after a node of one run."""

    before_bytes: int
    after_bytes: int
    title: str


Levels = dict[tuple[str, str], Level]  # by the node's id on the canvas and its class


def levels_of(run: Run) -> Levels:
    """Return the levels of each node that finished and is on the canvas itself."""
    found: Levels = {}
    for record in run.nodes.records.values():
        info = record.info
        before = record.before.rss_bytes if record.before is not None else None
        after = record.after.rss_bytes if record.after is not None else None
        is_own = info.node_id == info.display_node_id and record.status == "done"
        if is_own and before is not None and after is not None:
            found[info.node_id, info.class_type] = Level(before, after, info.title)
    return found


class Grower(NamedTuple):
    """A node that adds about as much RAM as RAM grows by from run to run."""

    node_id: str
    class_type: str
    title: str
    bytes_a_run: int
    runs: int
    added_bytes: int  # between its begin and end
    each_run: bool  # each run added to RAM; false where it also went down between two

    @property
    def off_bytes(self) -> int:
        """The difference between what it adds and what RAM grows by."""
        return abs(self.added_bytes - self.bytes_a_run)

    def keeps(self, result_mib: float) -> bool:
        """Return whether it adds more than its result in the cache, which the next run replaces."""
        return self.added_bytes - result_mib * MIB >= self.bytes_a_run / 2


def growers(runs: Sequence[Levels]) -> list[Grower]:
    """Return the nodes of the last run in which RAM grows with each run, the most likely first.

    `runs`: oldest first. Only the last MIN_RUNS runs of a node count, and never the very first one,
    which loads the models.
    """
    found: list[Grower] = []
    for node in runs[-1] if runs else ():
        all_levels = [run[node] for run in runs if node in run]
        if len(all_levels) < MIN_RUNS:
            continue
        levels = all_levels[1:][-MIN_RUNS:]
        rate = rate_of([level.after_bytes for level in levels])
        own = sum(level.after_bytes - level.before_bytes for level in levels) / len(levels)
        if rate >= MIN_BYTES and own >= rate / 2:
            each_run = all(one.after_bytes < two.after_bytes for one, two in pairwise(levels))
            found.append(Grower(*node, levels[-1].title, int(rate), len(all_levels),
                                int(own), each_run))
    return sorted(found, key=lambda one: one.off_bytes)


def traced(
    found: Sequence[Grower], held: Mapping[str, Any], pack_of: Callable[[str], str | None]
) -> list[dict[str, object]]:
    """Return the growth as JSON; it names a node only if most of the growth was found with it.

    `held`: as from ram_held; `pack_of(class)`: the pack that a node class comes from. Several nodes
    may grow alike, and some of them only pass on what others keep. A node whose result is as large
    as the growth, and stays in ComfyUI's cache until the next run, is not named. Nor is a node for
    what the object of another node holds. Growth that nothing explains is left out if RAM also went
    down between two of the runs: an allocator's RAM does that.
    """
    if not found:
        return []
    results = {one["node_id"]: one["mib"] for one in held.get("cached", ())}
    least_mib = SHARE_FOUND * found[0].bytes_a_run * found[0].runs / MIB
    for part in held.get("packs", ()):
        of_pack = [one for one in found if pack_of(one.class_type) == part["pack"]]
        if pack_of(part["holder"]) is not None:  # the object of a node keeps data for this node
            of_pack = [one for one in of_pack if one.class_type == part["holder"]]
        if part["mib"] >= least_mib and of_pack:
            own = [one for one in of_pack if one.class_type == part["holder"]] or [
                one for one in of_pack if one.keeps(results.get(one.node_id, 0.0))]
            alike = [one for one in own if one.off_bytes < own[0].off_bytes + one.bytes_a_run / 2]
            first = (own or of_pack)[0]
            return [_grown(first, first if len(alike) == 1 else None, part["holder"])]
    return [_grown(found[0], None, None)] if found[0].each_run else []


def _grown(grower: Grower, node: Grower | None, holder: str | None) -> dict[str, object]:
    return {
        "display_node_id": node and node.node_id, "class_type": node and node.class_type,
        "title": node and node.title, "holder": holder,
        "mib_a_run": in_mib(grower.bytes_a_run), "runs": grower.runs}

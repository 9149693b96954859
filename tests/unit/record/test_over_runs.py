"""RAM that grows with each run of a node: which node it is, and when nothing is said."""

import pytest

from headroom.base.device import MIB
from headroom.record.over_runs import Level, grows_over_runs


def runs(count, *nodes):
    """Runs of nodes that each take `taken` MiB and keep `kept` of it; 500 more in the first."""
    found, ram = [], 1000
    for run in range(count):
        levels, given_back = {}, 0
        for node_id, taken, kept in nodes:
            before, ram = ram, ram + taken(run)
            given_back += taken(run) - kept(run)
            levels[node_id, "Kind"] = Level(before * MIB, ram * MIB, f"Node {node_id}")
        ram += 500 * (run == 0) - given_back
        found.append(levels)
    return found


def always(amount):
    return lambda _run: amount


def test_a_node_that_keeps_50_mib_a_run_is_named_after_five_runs_and_no_other():
    nodes = [("1", always(700), always(0)), ("2", always(50), always(50)),
             ("3", always(0), always(0))]
    assert grows_over_runs(runs(4, *nodes)) == []
    assert grows_over_runs(runs(5, *nodes)) == [{
        "display_node_id": "2", "class_type": "Kind", "title": "Node 2", "mib_a_run": 50.0,
        "runs": 5}]


@pytest.mark.parametrize("kept", [
    lambda run: 300 if run == 0 else 0,  # a model in the first run
    lambda run: 300 if run == 3 else 0,  # once later
    lambda run: 3,  # too little to tell from the allocator's own
    lambda run: 200 if run < 3 else 0,  # a cache that is full
])
def test_what_does_not_grow_with_each_run_is_not_named(kept):
    assert grows_over_runs(runs(8, ("1", kept, kept))) == []

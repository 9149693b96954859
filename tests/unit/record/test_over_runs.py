"""RAM that grows with each run of a node: which node is named, and when none is."""

import pytest

from headroom.base.device import MIB
from headroom.record.over_runs import Level, growers, traced


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


def test_a_node_that_keeps_50_mib_a_run_is_found_after_five_runs_and_no_other():
    nodes = [("1", always(700), always(0)), ("2", always(50), always(50)),
             ("3", always(0), always(0))]
    assert growers(runs(4, *nodes)) == []
    found, other = growers(runs(5, *nodes))
    assert other.node_id == "1"  # node 3 takes nothing
    assert (found.node_id, found.bytes_a_run, found.runs) == ("2", 50 * MIB, 5)


def pack_of(class_type):
    return "leaky" if class_type.startswith("Kind") else None


def node_of(nodes, packs, cached=()):
    held = {"packs": packs, "cached": [{"node_id": node, "mib": mib} for node, mib in cached]}
    [found] = traced(growers(runs(5, *nodes)), held, pack_of)
    assert (found["mib_a_run"], found["runs"]) == (50.0, 5)
    return found["display_node_id"], found["holder"]


def part(holder, mib=250.0, pack="leaky"):
    return {"pack": pack, "holder": holder, "mib": mib}


def test_a_node_is_named_only_where_what_has_grown_was_traced_to_it():
    """Node 1 takes as much as node 2 keeps, and gives it back before the next run."""
    innocent = ("1", always(50), always(0))
    both, one = [innocent, ("2", always(50), always(50))], [("2", always(50), always(50))]
    assert node_of(both, []) == (None, None)
    assert node_of(one, [part("nodes.kept", 100.0)]) == (None, None)
    assert node_of(one, [part("nodes.kept", pack="another")]) == (None, None)
    large = [("1", always(700), always(0)), *one]
    assert node_of(large, [part("nodes.kept")]) == ("2", "nodes.kept")
    assert node_of(one, [part("nodes.kept")]) == ("2", "nodes.kept")
    assert node_of(both, [part("nodes.kept")]) == (None, "nodes.kept")  # of either, in one pack
    cached = [("1", 50.0)]
    assert node_of(both, [part("nodes.kept")], cached=cached) == ("2", "nodes.kept")
    assert node_of([innocent, ("3", always(0), always(50))], [part("nodes.kept")],
                   cached=cached) == (None, "nodes.kept")
    kinds = [{(node, f"Kind{node}"): level for (node, _), level in run.items()}
             for run in runs(5, *both)]
    [found] = traced(growers(kinds), {"packs": [part("Kind2")]}, pack_of)
    assert (found["display_node_id"], found["class_type"]) == ("2", "Kind2")


def test_a_node_is_not_named_for_what_the_object_of_another_node_holds():
    """Node 1 takes memory that the allocator keeps; node 2 kept frames in runs before."""
    taken = [("1", always(50), always(50))]
    assert node_of(taken, [part("KindOfAnother")]) == (None, None)
    assert node_of(taken, [part("KindOfAnother"), part("nodes.kept")]) == ("1", "nodes.kept")


@pytest.mark.parametrize("kept", [
    lambda run: 300 if run == 0 else 0,  # a model in the first run
    lambda run: 300 if run == 3 else 0,  # once later
    lambda run: 3,  # too little to tell from the allocator's own
    lambda run: 200 if run < 3 else 0,  # a cache that is full
])
def test_a_node_whose_ram_does_not_grow_with_each_run_is_not_named(kept):
    assert growers(runs(8, ("1", kept, kept))) == []


def test_growth_that_nothing_explains_is_said_only_if_each_run_added_to_it():
    """RAM that goes up and down from run to run often ends above where it began."""
    waves = [0, 80, -30, 100, 60, 0]
    found = growers(runs(6, ("1", always(60), lambda run: waves[run])))
    assert found
    assert traced(found, {}, pack_of) == []
    [said] = traced(found, {"packs": [part("nodes.kept")]}, pack_of)
    assert said["holder"] == "nodes.kept"

"""Events of the executor become the right spans, also where ComfyUI's own nodes give none."""

import gc
import re
import weakref

import pytest

from headroom.host.types import NodeLabel
from headroom.record.memory import Reading
from headroom.record.nodes import NodeTable


def table(parents=None, async_nodes=(), limit=2000):
    parents = parents or {}

    def describe(node_id):
        parent = parents.get(node_id)
        is_async = node_id in async_nodes
        return NodeLabel(node_id, "Kind", "Title", parent or node_id, parent, is_async)

    return NodeTable(describe, limit)


def at(seconds):
    return Reading(seconds, 0)


def played(events, **how):
    """A table after these events: "1+0" is the begin of node 1 at second 0, "1-2" its end at 2."""
    nodes = table(**how)
    for node_id, sign, seconds in re.findall(r"(\S+)([+-])(\d+)", events):
        (nodes.started if sign == "+" else nodes.finished)(node_id, at(int(seconds)))
    return nodes


def spans(found):
    return {node_id: record.spans for node_id, record in found.records.items()}


def statuses(found):
    return {node_id: record.status for node_id, record in found.records.items()}


def test_an_async_node_that_expands_ends_where_its_first_child_begins():
    nodes = played("1+0 2+1 2-2 1.a+5 1.a-6 1-7", parents={"1.a": "1"}, async_nodes={"1"})
    assert spans(nodes)["1"] == [(0, 5)]


def test_an_expansion_into_cached_nodes_only_ends_with_the_first_of_them():
    nodes = played("1+0 1.a-2 1-3", parents={"1.a": "1"})
    assert spans(nodes) == {"1": [(0, 2)], "1.a": []}
    assert statuses(nodes) == {"1": "done", "1.a": "cached"}


@pytest.mark.parametrize("async_nodes", [set(), {"2"}])
def test_a_lazy_node_is_not_charged_for_what_it_waits_for(async_nodes):
    nodes = played("2+0 1+1 1-9 2+10 2-12", async_nodes=async_nodes)
    assert spans(nodes)["2"] == [(0, 1), (10, 12)]
    assert nodes.records["2"].seconds == 3


def test_a_lazy_node_whose_input_is_ready_is_taken_up_again_at_once():
    assert spans(played("1+0 1+1 1-3")) == {"1": [(0, 1), (1, 3)]}


def test_the_node_that_runs_when_the_prompt_ends_is_the_one_that_failed():
    nodes = played("1+0 2+1", async_nodes={"1"})
    nodes.run_ended(at(4))
    nodes.settle("2")
    assert statuses(nodes) == {"1": "stopped", "2": "failed"}
    assert spans(nodes) == {"1": [(0, 4)], "2": [(1, 4)]}


def test_nodes_that_wait_when_another_fails_are_stopped():
    nodes = played("lazy+0 1+1")
    nodes.run_ended(at(2))
    nodes.settle("1")
    assert statuses(nodes) == {"lazy": "stopped", "1": "failed"}


@pytest.mark.parametrize("interrupted", [False, True])
def test_cached_nodes_nobody_looked_at_are_added_and_others_stay(interrupted):
    nodes = played("1+0 1-1")
    nodes.settle(None, ["0", "1"], interrupted)
    assert statuses(nodes) == {"1": "done", "0": "cached"}


def test_a_run_of_endless_nodes_stays_bounded_and_says_so():
    nodes = table(limit=10)
    for index in range(25):
        nodes.started(str(index), at(index))
        nodes.finished(str(index), at(index + 0.5))
    assert len(nodes.records) == 10 and len(nodes.left_out) == 15
    assert spans(nodes)["9"] == [(9, 9.5)]


def test_a_settled_run_does_not_keep_the_graph_of_its_prompt():
    class Graph:
        def describe(self, node_id):
            return NodeLabel(node_id, "Kind", "Title", node_id)

    graph = Graph()
    nodes, kept = NodeTable(graph.describe), weakref.ref(graph)
    nodes.started("1", at(1))
    nodes.finished("1", at(2))
    nodes.settle(None, ["2"])
    del graph
    gc.collect()
    assert kept() is None
    assert statuses(nodes) == {"1": "done", "2": "cached"}

"""With 200 turns of a loop the record says what grows in each turn and which nodes it left out."""

import pytest

from headroom.base.device import MIB
from headroom.host.types import NodeLabel
from headroom.record.memory import Reading, Use
from headroom.record.nodes import NodeTable
from headroom.record.run import Run
from headroom.record.run_json import run_json
from headroom.record.text import record_text
from headroom.record.turns import growths

TITLES = {"3": "KSampler", "5": "Collect"}


def describe(node_id):
    shown = node_id.rpartition("_")[2]
    return NodeLabel(node_id, "Kind", TITLES[shown], shown)


def looped(turns, rss, vram, limit=2000):
    """A run of a sampler and a collector; each gives MiB after (sampler, collector) by turn."""
    run = Run("a", ("cuda:0",), Reading(0.0, 0, (Use(0, total_bytes=1000 * MIB),)), 0.0,
              NodeTable(describe, limit))
    at, ram, card = 0.0, 100, 200
    for turn in range(turns):
        for index, node in enumerate(TITLES):
            node_id = f"1.0.{turn}_{node}"
            run.node_starts(node_id, reading(at, ram, card))
            ram, card = ram + rss(turn)[index], card + vram(turn)[index]
            run.node_finishes(node_id, reading(at + 0.5, ram, card))
            at += 1
    return run


def reading(at, ram, card):
    return Reading(at, ram * MIB, (Use(card * MIB, total_bytes=1000 * MIB),))


def nothing(_turn):
    return (0, 0)


def test_growth_with_each_turn_is_told_with_the_node_that_adds_most():
    run = looped(200, lambda turn: (1, 6), nothing)
    assert run_json(run, 1e6)["grows"] == [{
        "what": "RAM", "mib_a_turn": 7.0, "turns": 200, "display_node_id": "5",
        "title": "Collect"}]
    assert ("- RAM grows by 7.0 MiB with each turn of a loop (200 turns), most in Collect (#5)"
            in record_text(run_json(run, 1e6)))


def test_vram_that_grows_is_told_apart_from_ram():
    (growth,) = growths(looped(9, nothing, lambda turn: (3, 0)).nodes.records.values(), 0)
    assert (growth.what, growth.bytes_a_turn, growth.node.title) == ("VRAM", 3 * MIB, "KSampler")


@pytest.mark.parametrize("taken", [
    lambda turn: (50 if turn == 0 else 0, 0),  # a model is loaded in the first turn
    lambda turn: (80 if turn == 6 else 0, 0),  # once, later
    lambda turn: (40, -40),  # what one node takes the other gives back
])
def test_memory_that_does_not_grow_in_every_turn_is_not_told(taken):
    assert growths(looped(20, taken, taken).nodes.records.values(), 0) == []


def test_past_its_limit_of_nodes_the_record_names_what_it_left_out():
    run = looped(200, nothing, nothing, limit=299)
    data = run_json(run, 1e6)
    assert data["nodes_left_out"] == 101
    assert data["left_out"] == [
        {"display_node_id": "5", "title": "Collect", "count": 51},
        {"display_node_id": "3", "title": "KSampler", "count": 50}]
    assert "- runs of Collect (#5) that are not in the record: 51" in record_text(data)


def test_a_loop_that_only_waited_for_the_node_that_failed_in_it_is_stopped():
    table = NodeTable(lambda one: NodeLabel(one, "Kind", one, one, "1" if one != "1" else None))
    table.started("1", Reading(0.0, 0))
    table.started("1.0.0_3", Reading(1.0, 0))
    table.run_ended(Reading(2.0, 0))
    table.settle("1")
    assert [one.status for one in table.records.values()] == ["stopped", "failed"]

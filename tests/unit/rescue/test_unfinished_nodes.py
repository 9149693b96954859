"""Which nodes a second run may change: never one that comes out of ComfyUI's cache."""

from support.guard_prompts import node, picture

from headroom.base.graph import Graph
from headroom.rescue.setup import unfinished


def test_the_failed_node_and_what_had_not_run_may_change():
    assert unfinished(Graph(picture()), "4", {"1", "2", "3"}) == {"4", "5", "6"}


def test_nodes_above_a_finished_node_stay_even_if_they_did_not_run():
    prompt = {**picture(), "7": node("Switch", on=["1", 0], off=["9", 0]), "9": node("Checkpoint")}
    prompt["4"]["inputs"]["model"] = ["7", 0]
    assert "9" not in unfinished(Graph(prompt), "4", {"1", "2", "3", "7"})


def test_a_branch_that_came_out_of_the_cache_is_kept():
    other = {f"b{name}": node(n["class_type"], **{
        key: [f"b{v[0]}", v[1]] if isinstance(v, list) else v for key, v in n["inputs"].items()
    }) for name, n in picture().items()}
    found = unfinished(Graph({**picture(), **other}), "4", {"1", "2", "3", "b6"})
    assert found == {"4", "5", "6"}


def test_the_failed_node_may_change_even_if_something_behind_it_is_cached():
    assert "4" in unfinished(Graph(picture()), "4", {"1", "2", "3", "6"})

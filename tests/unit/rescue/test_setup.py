"""What a rerun may change, and what it runs again because ComfyUI's cache has lost it."""

import pytest
from support.guard_prompts import node, picture
from support.rescue_bench import PROMPT

from headroom.base.graph import Graph
from headroom.host.types import Cached
from headroom.rescue.setup import unfinished

NAN = float("nan")
FINISHED = {"failed": "3", "executed": ("1", "2")}


def said_of(bench, prompt=PROMPT, **how):
    bench.begin(prompt=prompt)
    bench.end(**{**FINISHED, **how})
    return bench.host.events[-1][1]["failure"]["text"]


@pytest.mark.parametrize(("cached", "said", "is_guarded"), [
    ("12", "OOM Guard: what had finished comes from the cache.", False),
    ("1", "comes from the cache, except for Hi-res (node 2).", True),
    ("", "everything runs again, because ComfyUI's cache", True),
])
def test_it_is_said_what_comes_from_the_cache_and_what_is_gone_is_guarded(
    bench, cached, said, is_guarded
):
    bench.host.cached = Cached(frozenset(cached), {})
    text = said_of(bench)
    assert text.endswith(said) or not cached and said in text
    assert (bench.only_queued[2]["2"] != PROMPT["2"]) is is_guarded


def test_where_nothing_had_finished_nothing_is_said_to_be_lost(bench):
    bench.host.cached = Cached(frozenset(), {})
    assert "everything" not in said_of(bench, failed="1", executed=())


def test_where_nobody_can_see_the_cache_nothing_is_promised(bench):
    assert said_of(bench).endswith("comes from the cache where ComfyUI still has it.")


@pytest.mark.parametrize(("before", "now", "differs"), [
    ([1.5], [2.5], True), ([NAN], [NAN], True), (NAN, NAN, True), (["hash"], ["hash"], False),
])
def test_a_result_that_may_differ_in_the_rerun_is_announced(bench, before, now, differs):
    bench.host.marks = {"2": before}
    bench.host.cached = Cached(frozenset({"1"}), {"2": now})
    assert ("may be different because of Hi-res (node 2)." in said_of(bench)) is differs


def test_a_random_seed_is_announced_where_its_node_runs_again(bench):
    drawn = {**PROMPT, "2": {**PROMPT["2"], "inputs": {**PROMPT["2"]["inputs"], "seed": -1}}}
    bench.host.cached = Cached(frozenset({"1"}), {})
    assert "may be different because of Hi-res" in said_of(bench, drawn)
    bench.host.cached = Cached(frozenset({"1", "2"}), {})
    bench.begin("b", prompt=drawn)
    bench.end(**FINISHED)
    assert "may be different" not in bench.host.events[-1][1]["failure"]["text"]


def test_nodes_that_had_failed_or_never_run_are_not_announced(bench):
    bench.host.cached = Cached(frozenset({"1"}), {"3": [1]})
    assert "except" not in said_of(bench, failed="2", executed=("1",))


def test_an_offer_names_the_finished_nodes_that_would_run_again(bench):
    bench.host.cached = Cached(frozenset({"1"}), {})
    bench.begin(extra={"client_id": "me"})
    bench.end(**FINISHED)
    text = bench.host.events[-1][1]["failure"]["text"]
    assert text.endswith("It can run again with OOM Guard: what had finished comes from the cache, "
                         "except for Hi-res (node 2).")
    bench.host.cached = Cached(frozenset({"1", "2"}), {})  # by the time that somebody asks
    assert bench.rescue.ask("a")["text"].endswith("what had finished comes from the cache.")


@pytest.mark.parametrize(("cached", "begun", "is_asked"), [
    ("15", "3", False),  # its answer is in the cache
    ("1", "3", True),
    ("1", "35", True),  # async: it waited for its answer when another node failed
])
def test_a_rerun_that_asks_a_paid_service_twice_is_not_made_without_the_user(
    bench, cached, begun, is_asked
):
    prompt = {**PROMPT, "5": {"class_type": "Paid", "inputs": {}},
              "6": {"class_type": "Save", "inputs": {"images": ["5", 0]}}}
    bench.host.cached, bench.host.begun = Cached(frozenset(cached), {}), list(begun)
    bench.begin(prompt=prompt, outputs=("4", "6"))
    bench.end(failed="3", executed=[one for one in "125" if one not in begun])
    text = "These nodes use their paid service a second time: Paid (node 5)."
    assert (text in bench.host.events[-1][1]["failure"]["text"]) is is_asked
    assert (bench.host.queued == []) is is_asked
    if is_asked:
        assert text in bench.rescue.ask("a")["text"]


def test_a_wrong_result_in_the_cache_is_not_taken(bench):
    bench.host.cached = Cached(frozenset({"1", "2"}), {})
    bench.begin()
    bench.left_out("2")
    bench.end(**FINISHED)
    assert bench.only_queued[2]["2"]["inputs"]["model"] == ["headroom-guard-1-0", 0]


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

"""A node in a loop runs out of memory: ComfyUI names the begin of the loop."""

import pytest
from support.rescue_bench import PROMPT

from headroom.host.types import Cached


def looped(**start):
    return {
        **PROMPT,
        "start": {"class_type": "StartLoop", "inputs": {"mode": "simple", **start}},
        "2": {**PROMPT["2"], "inputs": {"model": ["1", 0], "seed": ["start", 0]}},
        "end": {"class_type": "EndLoop", "inputs": {"output_value": ["3", 0]}},
        "4": {"class_type": "Save", "inputs": {"images": ["end", 0]}},
    }


@pytest.fixture
def bench(bench):
    bench.host.failing = "start.0.1_2"
    bench.host.shown = {"start.0.1_2": "2", "start.0.0_2": "2", "start.0.0_3": "3"}
    bench.host.cached = Cached(frozenset({"1"}), {})
    return bench


def fail(bench, prompt):
    bench.begin(prompt=prompt)
    bench.end(failed="start", executed=("1", "start.0.0_2", "start.0.0_3"))
    [(_, data, _)] = bench.host.events
    return data["failure"]


def test_the_node_that_failed_is_the_one_in_the_loop(bench):
    failure = fail(bench, looped())
    assert (failure["node_id"], failure["class_type"]) == ("2", "Sample")
    assert failure["text"].startswith("Hi-res (node 2) ran out of GPU memory")


def test_a_node_that_another_pack_made_without_one_on_the_canvas_is_told_as_comfyui_does(bench):
    bench.host.shown = {}
    assert fail(bench, looped())["node_id"] == "start"


def test_nodes_in_the_loop_are_guarded_and_said_to_run_again_in_all_turns(bench):
    text = fail(bench, looped())["text"]
    prompt = bench.only_queued[2]
    assert prompt["2"]["inputs"]["model"] == ["headroom-guard-1-0", 0]
    assert prompt["3"]["inputs"]["vae"] == ["headroom-guard-1-1", 0]
    assert text.endswith("except for Hi-res (node 2), Decode (node 3).")


def test_turns_that_comfyui_keeps_come_from_the_cache_unless_a_guard_changes_them(bench):
    assert "except for" in fail(bench, looped(cache_iterations=True))["text"]
    bench.host.events.clear(), bench.host.queued.clear()
    guarded = bench.rescue._setup(bench.rescue._book.get("a")).guarded.prompt
    bench.begin("b", prompt=guarded)  # Guard every run
    bench.end(failed="start", executed=("1", "start.0.0_2", "start.0.0_3"))
    [(_, data, _)] = bench.host.events
    assert data["failure"]["text"].endswith("what had finished comes from the cache.")
    assert bench.rescue._setup(bench.rescue._book.get("b")).runs.turns == {"2", "3"}


def test_a_guard_after_a_node_in_a_loop_costs_its_kept_turns_too_and_the_text_says_so(bench):
    """Each turn stands on what reached the loop's end in the turn before."""
    prompt = looped(cache_iterations=True)
    del prompt["2"]["inputs"]["model"]  # nothing of the sampler or above it is guarded
    assert fail(bench, prompt)["text"].endswith(
        "except for Hi-res (node 2), Decode (node 3).")


def test_a_loop_of_another_pack_whose_first_turn_is_in_the_cache_is_guarded_where_it_failed(bench):
    """Its first turn runs under the very ids of the prompt."""
    bench.host.cached = Cached(frozenset({"1", "2", "3"}), {})
    bench.begin(prompt=PROMPT)
    bench.end(failed="4", executed=("1", "2", "3"))
    prompt = bench.only_queued[2]
    assert prompt["2"]["inputs"]["model"] == ["headroom-guard-1-0", 0]
    assert prompt["3"]["inputs"]["vae"] == ["headroom-guard-1-1", 0]


def test_later_turns_of_a_loop_of_another_pack_are_said_to_run_again(bench):
    """They ran under other ids, and ComfyUI's cache has them under none that the rerun asks for."""
    prompt = {**PROMPT, "close": {"class_type": "Close", "inputs": {"value": ["3", 0]}},
              "4": {**PROMPT["4"], "inputs": {"images": ["close", 0]}}}
    bench.host.failing = "close.0.0.3"
    bench.host.shown = {"close.0.0.2": "2", "close.0.0.3": "3"}
    bench.host.cached = Cached(frozenset({"1", "2", "3"}), {})
    bench.begin(prompt=prompt)
    bench.end(failed="close", executed=("1", "2", "3", "close.0.0.2"))
    [(_, data, _)] = bench.host.events
    assert data["failure"]["text"].endswith("except for Hi-res (node 2).")

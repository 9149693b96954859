"""The recorder with a fake executor: what it keeps, and when it puts a record together."""

from types import SimpleNamespace

import pytest
from support.recorder import Graph, Probe, play

from headroom.record.recorder import Recorder
from headroom.record.run import Outcome


@pytest.fixture
def recorder(outcomes, probe):
    return Recorder(probe, outcomes.get)


@pytest.fixture
def described(monkeypatch):
    """How many nodes have been entered into records."""
    monkeypatch.setattr(Graph, "described", 0)
    return lambda: Graph.described


def test_a_run_has_the_shape_of_the_contract(recorder, outcomes):
    play(recorder, "p", "1", "1.a")
    outcomes["p"] = Outcome("success")
    run = recorder.run("p")
    assert {"prompt_id", "status", "device", "seconds", "peak_vram_mib", "peak_rss_mib", "nodes",
            "oom", "actions"} <= set(run)
    assert {"node_id", "class_type", "title", "seconds", "cached", "vram_before_mib",
            "vram_after_mib", "peak_vram_mib", "rss_before_mib", "rss_after_mib"} <= set(
                run["nodes"][0])
    assert (run["status"], run["device"], run["vram_source"]) == ("success", "cuda:0", "driver")
    assert [node["node_id"] for node in run["nodes"]] == ["1", "1.a"]
    assert run["nodes"][1]["display_node_id"] == "1"


def test_samples_come_with_one_run_and_not_with_the_list(recorder):
    play(recorder, "p", "1")
    assert "samples" in recorder.run("p")
    assert "samples" not in recorder.runs()[0]


def test_a_run_is_running_until_comfyui_tells_its_outcome(recorder, outcomes):
    play(recorder, "p", "1")
    assert recorder.run("p")["status"] == "running"
    outcomes["p"] = Outcome("interrupted", "1")
    assert recorder.run("p")["status"] == "interrupted"


def test_the_record_of_a_failed_run_says_what_its_error_means(recorder, outcomes):
    play(recorder, "p", "1")
    outcomes["p"] = Outcome("error", "1", (), ("builtins.RuntimeError", "Fault failed: 2\nmore"))
    error = recorder.run("p")["error"]
    assert (error["node_id"], error["error"]) == ("1", "RuntimeError: Fault failed: 2")
    means = error["means"]
    assert (means["family"], means["retry"]) == ("driver", False)
    assert means["what"]["text"]
    assert means["why"]["said"]["template"].startswith("Memory was not short")
    assert not any("--" in one["text"] for one in means["do"])  # without a ComfyUI no flag is there
    outcomes["q"] = Outcome("error", "1", (), ("ValueError", "a wrong value"))
    play(recorder, "q", "1")
    assert recorder.run("q")["error"]["means"] is None
    outcomes["r"] = Outcome("success")
    play(recorder, "r", "1")
    assert recorder.run("r")["error"] is None


def test_the_time_without_progress_begins_anew_with_each_node_and_each_step(recorder, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("headroom.record.recorder.time.perf_counter", lambda: now[0])
    assert recorder.without_progress() is None
    recorder.prompt_begins("p", Graph("1"), [])
    now[0] += 5
    assert recorder.without_progress() == (5, None)
    recorder.node_starts("1", None, "p")
    recorder.node_progresses("1", 1, 20, None, "p", None)
    now[0] += 7
    seconds, node = recorder.without_progress()
    assert (seconds, node.node_id) == (7, "1")
    recorder.prompt_leaves()
    assert recorder.without_progress() is None


def test_a_run_knows_which_nodes_have_drawn_previews_and_how_large(recorder, outcomes):
    outcomes.update(p=Outcome("success"), q=Outcome("success"))
    play(recorder, "p", "1", end=False)
    for size in ((64, 64), (128, 96), (32, 32)):
        recorder.node_progresses("1", 1, 3, None, "p", ("JPEG", SimpleNamespace(size=size), 512))
    for strange in (None, (), ("JPEG",), b"jpeg", ("JPEG", b"jpeg", 512)):
        recorder.node_progresses("2", 1, 3, None, "p", strange)
    recorder.prompt_leaves()
    play(recorder, "q", "1")
    assert recorder.look("p", lambda run: run.drawn) == {"1": (128, 96)}
    assert recorder.look("q", lambda run: run.drawn) == {}


def test_a_node_that_was_interrupted_has_stopped_and_not_failed(recorder, outcomes):
    recorder.prompt_begins("p", Graph("1"), [])
    recorder.node_starts("1", None, "p")
    recorder.prompt_leaves()
    outcomes["p"] = Outcome("interrupted", "1")
    (node,) = recorder.run("p")["nodes"]
    assert node["status"] == "stopped"


def test_cached_nodes_of_the_outcome_are_added_when_they_are_in_the_prompt(recorder, outcomes):
    recorder.prompt_begins("p", Graph("1", "2"), [])
    recorder.node_starts("2", None, "p")
    recorder.node_finishes("2", None, "p")
    recorder.prompt_leaves()
    outcomes["p"] = Outcome("success", None, ("1", "gone"))
    nodes = {node["node_id"]: node for node in recorder.run("p")["nodes"]}
    assert nodes["1"]["cached"] and not nodes["2"]["cached"] and "gone" not in nodes


def test_events_of_another_prompt_are_not_mixed_in(recorder):
    recorder.prompt_begins("p", Graph("1"), [])
    recorder.node_starts("1", None, "some other prompt")
    assert recorder.run("p")["nodes"] == []


def test_a_node_that_began_before_the_prompt_was_seen_counts_from_the_reset(recorder):
    recorder.prompt_resets()
    recorder.prompt_begins("p", Graph("1"), ["1"])
    recorder.node_finishes("1", None, "p")
    node = recorder.run("p")["nodes"][0]
    assert node["start_seconds"] == 0 and node["status"] == "done"


def test_the_next_prompt_closes_a_run_whose_end_nobody_told(recorder):
    play(recorder, "p", "1", end=False)
    play(recorder, "q", "1", end=False)
    assert recorder.run("p")["status"] == "success"
    recorder.node_starts("2", None, "q")
    play(recorder, "r", "1")
    assert recorder.run("q")["status"] == "error"


def test_no_record_is_put_together_while_prompts_follow_each_other(recorder, outcomes, described):
    for prompt_id in ("p", "q"):
        play(recorder, prompt_id, "1", "2")
        recorder._sample()
        outcomes[prompt_id] = Outcome("success")
        recorder._sample()
    assert described() == 0
    recorder._sample()
    assert described() == 4


def test_asking_for_a_record_puts_it_together_at_once(recorder, described):
    play(recorder, "p", "1", end=False)
    assert described() == 0
    assert [node["status"] for node in recorder.run("p")["nodes"]] == ["done"]


def test_every_run_that_is_over_is_told_once_with_all_that_happened(outcomes, probe):
    told = []
    recorder = Recorder(probe, outcomes.get, run_is_over=lambda run: told.append(
        (run.prompt_id, run.status, len(run.nodes.records))))
    for index in range(60):
        play(recorder, str(index), "1")
        outcomes[str(index)] = Outcome("success")
    recorder.catch_up()
    recorder.catch_up()
    assert told == [(str(index), "success", 1) for index in range(60)]


def test_the_end_of_every_prompt_is_told_by_our_thread_and_by_no_question(outcomes, probe):
    told = []
    recorder = Recorder(probe, outcomes.get, prompt_is_over=told.append)
    for prompt_id in ("p", "q"):
        play(recorder, prompt_id, "1")
        outcomes[prompt_id] = Outcome("success")
        assert recorder.run(prompt_id)["status"] == "success"
    assert told == []
    recorder._look()
    assert told == ["p", "q"]


def test_a_prompt_id_that_comes_again_replaces_its_older_run(recorder):
    play(recorder, "p", "1")
    play(recorder, "p", "1", "2")
    assert [len(run["nodes"]) for run in recorder.runs()] == [2]


def test_a_prompt_waits_for_an_action_before_it_begins(outcomes):
    order = []
    recorder = Recorder(Probe(), outcomes.get, before_prompt=lambda: order.append("waited"))
    recorder.prompt_resets()
    assert order == ["waited"]

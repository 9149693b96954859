"""Offers and who asks for them, parts left out without an error, and what other code sees."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from support.rescue_bench import OOM, PROMPT, Bench

from headroom.base.device import MIB
from headroom.base.said import NotKnown, Refused
from headroom.guard.errors import OomGuardError
from headroom.rescue.failed_prompt import SeenError


def test_models_of_which_nearly_nothing_was_loaded_held_no_memory():
    """Dynamic VRAM leaves some KiB of a model on the GPU, which a sentence would tell as 0 MiB."""
    crumb, model = (SimpleNamespace(bytes=size) for size in (16 << 10, 600 * MIB))
    assert SeenError.of(MemoryError(), "4", [crumb, model]).held == (model,)


def test_offering_queues_nothing_until_it_is_asked_for(bench):
    bench.fail(extra={"client_id": "me"})
    assert bench.host.queued == []
    [(_, data, _)] = bench.host.events
    assert data["rescued_as"] is None and data["failure"]["can_rescue"] is True
    answer = bench.rescue.ask("a")
    assert answer["prompt_id"] == bench.only_queued[1] and answer["rescued_from"] == "a"
    with pytest.raises(Refused, match="was run again already"):
        bench.rescue.ask("a")


@pytest.mark.parametrize("is_final", [True, False])
@pytest.mark.parametrize("extra", [{"client_id": "me"}, {"headroom": {"rescue": True}}])
def test_where_oom_guard_gave_up_a_rerun_is_made_only_if_it_can_do_more(bench, extra, is_final):
    bench.fail(extra=extra, error=OomGuardError("it needs more than there is", is_final))
    failure = bench.host.events[-1][1]["failure"]
    assert ("A rerun would not help" in failure["text"]) == is_final
    assert failure["can_rescue"] == (not is_final and "client_id" in extra)
    assert len(bench.host.queued) == (not is_final and "client_id" not in extra)
    if is_final:
        with pytest.raises(Refused, match="A rerun would not help.* What helps: use a smaller"):
            bench.rescue.ask("a")


class SlowDisk:
    """Finished outputs whose writing ends after `meanwhile`."""

    def __init__(self, meanwhile):
        self.meanwhile, self.seen = meanwhile, []

    def prompt_begins(self, prompt_id, prompt):
        """A prompt begins."""

    def keep(self, prompt_id, setup, failed_id):
        with ThreadPoolExecutor(1) as other:
            self.seen.append(other.submit(self.meanwhile).result(10))


@pytest.mark.parametrize("is_asked", [True, False])
def test_while_finished_outputs_go_to_disk_other_decisions_are_made_and_no_second_rerun(is_asked):
    def meanwhile():
        assert bench.host.queued == []  # a server may be killed as soon as it is there
        bench.rescue.prompt_is_over()
        with pytest.raises(Refused, match="was run again already"):
            bench.rescue.ask("a")
        return True

    bench = Bench(finished=(disk := SlowDisk(meanwhile)))
    bench.fail(extra={"headroom": {"rescue": not is_asked}})
    if is_asked:
        bench.rescue.ask("a")
    assert disk.seen == [True] and bench.rescue.facts("a")["rescued_as"] == bench.only_queued[1]


def test_a_rerun_that_was_deleted_before_it_ran_is_offered_and_can_be_asked_for_again(bench):
    bench.fail()
    assert "It runs again" in bench.rescue.facts("a")["failure"]["text"]
    bench.host.queued.clear()
    told = bench.rescue.facts("a")
    assert told["rescued_as"] is None and told["failure"]["can_rescue"]
    assert "It can run again" in told["failure"]["text"]
    assert bench.rescue.ask("a")["prompt_id"] == bench.only_queued[1]


def test_a_rerun_that_ran_is_the_only_one_even_if_the_history_is_cleared(bench):
    bench.fail()
    item = bench.only_queued
    bench.begin(item[1], item[2])
    bench.host.queued.clear()
    bench.end(None)
    bench.host.history.clear()
    with pytest.raises(Refused, match="was run again already"):
        bench.rescue.ask("a")


def test_switched_off_nothing_is_offered_but_it_can_be_asked_for(bench):
    bench.fail(extra={"headroom": {"rescue": False}})
    assert bench.host.events == []
    assert bench.rescue.ask("a")["prompt_id"]


def test_unknown_and_running_prompts_are_told_apart(bench):
    with pytest.raises(NotKnown, match="No prompt nowhere is known"):
        bench.rescue.ask("nowhere")
    bench.host.queued.append((1, "waiting"))
    with pytest.raises(Refused, match="did not end"):
        bench.rescue.ask("waiting")


def test_a_rerun_is_refused_with_the_reason_where_it_cannot_help(bench):
    bench.begin()
    bench.end(RuntimeError("HostBuffer.read_file_slice failed"))
    assert bench.host.events == [] and bench.host.queued == []
    with pytest.raises(Refused, match="would not help: .*pinned memory.* the same buffer"):
        bench.rescue.ask("a")


def test_a_prompt_with_the_id_of_one_that_failed_is_judged_by_its_own_run(bench):
    bench.fail()
    bench.begin()
    bench.end(None)
    assert bench.rescue.facts("a") == {"rescued_as": None, "failure": None, "rescued_from": None}
    with pytest.raises(Refused, match="did not end in an out-of-memory"):
        bench.rescue.ask("a")


def test_a_prompt_that_comfyui_refuses_is_told_in_one_sentence(bench):
    bench.host.refusal = "node Sample does not exist."
    bench.fail()
    assert bench.host.queued == []
    [(_, data, _)] = bench.host.events
    assert "It cannot run again: ComfyUI refuses the prompt" in data["failure"]["text"]
    with pytest.raises(Refused, match="node Sample does not exist"):
        bench.rescue.ask("a")


def test_a_fallback_that_fails_because_memory_had_run_out_counts_as_it(bench, monkeypatch):
    monkeypatch.setattr("headroom.rescue.kept.executing_node", lambda: ("a", "3"))
    mixed = RuntimeError("Expected all tensors to be on the same device, but found two")
    bench.begin()
    bench.rescue.error_is_handled(OOM)  # and ComfyUI tries the VAE in tiles
    bench.end(mixed, failed="3", executed=("1", "2"))
    assert bench.rescue.facts("a")["failure"]["asked_mib"] == 1536.0
    assert bench.only_queued
    bench.host.queued.clear()
    bench.begin("b")
    bench.rescue.error_is_handled(OOM)
    bench.end(mixed, failed="2")  # but this one is of another node
    assert bench.host.queued == []


def test_a_prompt_that_ended_well_without_a_part_of_a_lora_is_not_run_again(bench):
    """The record and a message in the browser say so; see guard/test_left_out.py."""
    bench.begin()
    bench.left_out("2")
    bench.end(None)
    assert bench.host.queued == [] and bench.rescue.facts("a")["failure"] is None
    with pytest.raises(Refused, match="did not end in an out-of-memory error"):
        bench.rescue.ask("a")


def test_a_rerun_repeats_a_node_that_left_something_out_before_another_failed(bench):
    prompt = {**PROMPT, "6": {"class_type": "Sample", "inputs": {"model": ["1", 0]}},
              "7": {"class_type": "Sample", "inputs": {"model": ["1", 0]}}}
    bench.begin(prompt=prompt)
    bench.left_out("2")
    bench.end(failed="3", executed=("1", "2", "6"), cached=("7",))
    queued = bench.only_queued[2]
    assert [name for name in "123467" if queued[name] != prompt[name]] == ["2", "3", "6"]


@pytest.mark.parametrize(("node_id", "prompt_id", "giver"), [
    ("2.0.0.1", "a", "headroom-guard-1-0"), ("2", "another", "1")])
def test_a_part_left_out_counts_for_the_users_node_and_not_for_another_prompt(
    bench, node_id, prompt_id, giver
):
    bench.begin()
    bench.left_out(node_id, prompt_id)
    bench.end(failed="3", executed=("1", "2"))
    assert bench.only_queued[2]["2"]["inputs"]["model"] == [giver, 0]


def test_an_error_that_no_log_showed_is_read_from_the_history(bench):
    bench.begin()
    bench.rescue.error_is_handled = lambda error: None
    bench.end(type("OutOfMemoryError", (Exception,), {})("CUDA out of memory. Tried to allocate "
                                                         "2.00 GiB."))
    assert bench.only_queued
    assert bench.rescue.facts("a")["failure"]["asked_mib"] == 2048.0


def test_reading_the_facts_of_a_prompt_queues_nothing(bench, monkeypatch):
    monkeypatch.setattr("headroom.rescue.rescue.DECISION_SECONDS", 0)
    bench.begin()
    bench.rescue.prompt_is_over, told = lambda *_: None, bench.rescue.prompt_is_over
    bench.end()
    assert bench.rescue.facts("a")["failure"] is None and bench.host.queued == []
    told()
    assert bench.rescue.facts("a")["rescued_as"] == bench.only_queued[1]


def test_a_question_that_comes_before_the_decision_waits_for_it(bench):
    bench.begin()
    bench.rescue.prompt_is_over, told = lambda *_: None, bench.rescue.prompt_is_over
    bench.end()
    asked, answers = threading.Event(), []
    decided = bench.rescue._running.is_decided
    wait, decided.wait = decided.wait, lambda seconds: asked.set() or wait(seconds)
    asking = threading.Thread(target=lambda: answers.append(bench.rescue.facts("a")["rescued_as"]))
    asking.start()
    assert asked.wait(60)
    told()
    asking.join(60)
    assert answers == [bench.only_queued[1]]


def test_a_question_in_the_middle_of_the_decision_waits_for_it(bench):
    asked, answers = threading.Event(), []

    def ask():
        asked.set()
        answers.append(bench.rescue.facts("a")["rescued_as"])

    asking = threading.Thread(target=ask)

    def validated(prompt_id, prompt, outputs):  # while the decision is made
        asking.start()
        asked.wait(60)
        asking.join(0.2)
        return outputs

    bench.host.validated = validated
    bench.fail()
    asking.join(60)
    assert answers == [bench.only_queued[1]]


def test_the_users_prompt_in_the_history_is_not_touched(bench):
    bench.fail()
    queued = bench.only_queued[2]
    queued["1"]["is_changed"] = [1]  # as ComfyUI does while it runs
    assert "is_changed" not in PROMPT["1"]
    assert bench.host.history["a"]["prompt"][2] == PROMPT

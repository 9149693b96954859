"""When a prompt gets a rerun, and what is queued."""

import uuid

import pytest
import torch
from support.rescue_bench import OOM, PROMPT

from headroom.base.said import Refused
from headroom.host.types import Cached


def test_only_what_had_failed_or_not_run_is_guarded_and_only_unwritten_outputs_are_asked_for(bench):
    bench.fail()
    number, new_id, prompt, extra, outputs, sensitive = bench.only_queued
    assert (number, outputs, sensitive) == (3.5, ["4"], {"api_key": "secret"})
    assert prompt["1"] == PROMPT["1"] and prompt["4"] == PROMPT["4"]
    assert prompt["2"]["inputs"]["model"] == ["headroom-guard-1-0", 0]
    assert prompt["3"]["inputs"]["vae"] == ["headroom-guard-1-1", 0]
    assert extra["headroom"] == {"rescue": True, "rescued_from": "a"}
    assert extra["client_id"] == "me"
    assert bench.rescue.facts("a")["rescued_as"] == new_id
    assert bench.rescue.facts(new_id)["rescued_from"] == "a"


def test_an_output_that_was_written_is_not_asked_for_again(bench):
    two = {**PROMPT, "5": {"class_type": "Save", "inputs": {"images": ["3", 0]}}}
    bench.begin(prompt=two, outputs=("4", "5"))
    bench.end(failed="5", executed=("1", "2", "3", "4"))
    assert bench.only_queued[4] == ["5"]


def test_where_comfyui_keeps_nothing_everything_is_guarded_and_the_text_says_so(bench):
    bench.host.keeps_nothing = True
    bench.begin()
    bench.end(failed="3", executed=("1", "2"))
    assert bench.only_queued[2]["2"]["inputs"]["model"] == ["headroom-guard-1-0", 0]
    [(_, data, _)] = bench.host.events
    assert "everything runs again" in data["failure"]["text"]


def test_a_finished_node_whose_result_is_not_cached_is_guarded(bench):
    bench.host.cached = Cached(frozenset(), {"1": [float("nan")]})
    bench.fail(failed="3", executed=("1", "2"))
    assert bench.only_queued[2]["2"]["inputs"]["model"] == ["headroom-guard-1-0", 0]


def test_the_client_is_told_the_second_id_what_failed_and_what_held_the_memory(bench):
    bench.fail()
    [(event, data, client)] = bench.host.events
    assert (event, client, data["prompt_id"]) == ("headroom.rescue", "me", "a")
    assert data["rescued_as"] == bench.only_queued[1]
    failure = data["failure"]
    assert (failure["node_id"], failure["title"], failure["asked_mib"]) == ("2", "Hi-res", 1536.0)
    assert failure["held"] == [{"kind": "diffusion model", "class": "BaseModel",
                                "file": "sd15.safetensors", "loaded_mib": 3072.0}]
    assert failure["text"].startswith(
        "Hi-res (node 2) ran out of GPU memory asking for 1,536.0 MiB while these models were "
        "loaded: sd15.safetensors (diffusion model) 3,072.0 MiB."
    )


@pytest.mark.parametrize("extra", [{}, {"headroom": {"rescue": True}}])
def test_a_cause_that_only_the_table_of_errors_knows_is_told_too(bench, extra):
    bench.fail(extra=extra, error=OSError("The paging file is too small (os error 1455)"))
    text = bench.host.events[-1][1]["failure"]["text"]
    assert "ran out of RAM while" in text and "The page file of Windows was too small" in text
    bench.fail("b", extra=extra)
    assert "The memory of the GPU ran out" not in bench.host.events[-1][1]["failure"]["text"]


def test_messages_have_templates_and_values_for_pages_in_other_languages(bench):
    bench.fail()
    [(_, data, _)] = bench.host.events
    failed, again = data["failure"]["said"]["values"]
    first = "{title} (node {node_id}) ran out of {memory}{asked}{held}."
    assert failed["template"] == first and again["template"].startswith("It runs again")
    assert failed["values"]["asked"]["values"] == {"asked_mib": 1536.0}
    new_id, prompt = bench.only_queued[1:3]
    bench.begin(new_id, prompt)
    bench.end(failed="3")
    failure = bench.host.events[-1][1]["failure"]
    twice, helps = failure["said"]["values"]
    assert helps["template"] == "What helps: {do}."
    assert "OOM Guard" not in failure["text"].partition("What helps")[2]  # which it had
    assert [twice["values"][name]["template"] for name in ("now", "before")] == [first] * 2


@pytest.mark.parametrize(("error", "frees_ram"), [(OOM, False), (MemoryError("no RAM"), True)])
def test_everything_is_unloaded_before_a_rerun_and_only_then_and_ram_is_freed_if_that_ran_out(
    bench, error, frees_ram
):
    bench.fail(error=error)
    assert bench.purged == []
    item = bench.only_queued
    bench.begin(item[1], item[2], item[3], item[4])
    assert bench.purged == [frees_ram]
    bench.end(None)
    bench.begin("b")
    assert bench.purged == [frees_ram]


def test_a_rerun_that_fails_is_the_end_and_its_text_names_both(bench):
    bench.fail()
    new_id, prompt = bench.only_queued[1:3]
    bench.host.queued.clear()
    bench.begin(new_id, prompt)
    bench.end(failed="3")
    assert bench.host.queued == []
    text = bench.host.events[-1][1]["failure"]["text"]
    assert "The rerun of prompt a" in text
    assert "Decode (node 3)" in text and "Hi-res (node 2)" in text
    assert bench.rescue.facts(new_id)["failure"]["can_rescue"] is False
    with pytest.raises(Refused, match="itself the rerun of prompt a"):
        bench.rescue.ask(new_id)


@pytest.mark.parametrize("error", [
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    MemoryError("not enough memory"), RuntimeError("MPS backend out of memory (MPS ...)"),
    type("PackError", (torch.OutOfMemoryError,), {})("the sampler is full"),
])
def test_every_family_is_rescued(bench, error):
    bench.fail(error=error)
    assert bench.only_queued


def raised(ending, cause=OOM, suppressed=False):
    """An error as Python leaves it when a node raises it while it handles another one."""
    ending.__context__, ending.__suppress_context__ = cause, suppressed
    return ending


@pytest.mark.parametrize("ending", [
    RuntimeError("my node failed"), Exception(str(OOM)), ValueError("too large a picture"),
    type("PackError", (Exception,), {})("the upscaler stopped"),
])
def test_an_error_that_a_node_made_of_an_out_of_memory_error_is_rescued(bench, ending):
    bench.fail(error=raised(ending), failed="3")
    assert bench.only_queued
    failure = bench.host.events[-1][1]["failure"]
    assert failure["asked_mib"] == 1536 and failure["error"].startswith("OutOfMemoryError")


@pytest.mark.parametrize("error", [
    RuntimeError("CUDA error: an illegal memory access was encountered"), ValueError("wrong"), None,
    raised(ValueError("wrong"), cause=RuntimeError("shapes do not match")),
    raised(ValueError("wrong"), suppressed=True),
])
def test_another_error_or_one_raised_from_another_kind_or_none_is_left_alone(bench, error):
    bench.fail(error=error)
    assert bench.host.queued == [] and bench.host.events == []
    with pytest.raises(Refused, match="did not end in an out-of-memory error"):
        bench.rescue.ask("a")


def test_after_a_survived_out_of_memory_error_another_error_gets_no_rerun(bench):
    bench.begin()
    bench.rescue.error_is_handled(OOM)
    bench.end(ValueError("wrong"), failed="3")
    assert bench.host.queued == []


def test_an_interrupt_never_leads_to_a_rerun(bench):
    bench.begin()
    bench.end(None, messages=[("execution_interrupted", {"node_id": "2"})])
    assert bench.host.queued == []
    bench.host.interrupted = True  # asked for, but the error came first
    bench.fail("b")
    assert bench.host.queued == [] and bench.host.events == []


def test_a_rerun_has_an_id_that_every_comfyui_takes(bench):
    """Newer ones refuse all but the usual form of a UUID, when the job is to be cancelled too."""
    bench.fail()
    prompt_id = bench.only_queued[1]
    assert str(uuid.UUID(prompt_id)) == prompt_id


def test_after_the_queue_was_cleared_nothing_is_queued(bench):
    bench.begin()
    bench.rescue.queue_is_cleared()
    bench.end()
    assert bench.host.queued == []
    bench.fail("b")  # the next prompt is another matter
    assert bench.only_queued


def test_a_queue_cleared_before_the_prompt_just_taken_from_it_has_begun_stays_empty(bench):
    bench.take()
    bench.rescue.queue_is_cleared()
    bench.rescue.prompt_begins()
    bench.end()
    assert bench.host.queued == []


def test_a_queue_cleared_when_the_next_prompt_was_just_taken_stays_empty_for_the_one_before(bench):
    bench.begin()
    failed = bench.host.running
    bench.take("b")
    bench.rescue.queue_is_cleared()
    bench.host.running = failed
    bench.end()
    bench.fail("b")
    assert bench.host.queued == []


STOPPED = [("execution_interrupted", {"node_id": "2", "node_type": "Sample", "executed": ["1"]})]


def test_a_prompt_that_was_stopped_before_ram_ran_out_runs_again_once_after_a_purge_of_ram(bench):
    bench.begin()
    bench.rescue.stops_for_ram("a", "2", "RAM was about to run out")
    bench.end(error=None, messages=STOPPED)
    item = bench.only_queued
    text = bench.rescue.facts("a")["failure"]["text"]
    assert text.startswith("Hi-res (node 2) was stopped before RAM ran out. It runs again")
    assert "RAM is freed first" in text
    bench.begin(item[1], item[2], item[3], item[4])
    assert bench.purged == [True]
    bench.rescue.stops_for_ram(item[1], "2", "RAM was about to run out")
    bench.end(error=None, messages=STOPPED)
    assert bench.host.queued == [item]
    with pytest.raises(Refused, match="run again already"):
        bench.rescue.ask("a")


def test_a_prompt_that_ended_before_the_interrupt_keeps_its_own_outcome(bench):
    bench.begin()
    bench.rescue.stops_for_ram("a", "2", "RAM was about to run out")
    bench.end(error=None)
    assert bench.host.queued == [] and bench.rescue.facts("a")["failure"] is None
    with pytest.raises(Refused, match="did not end in an out-of-memory error"):
        bench.rescue.ask("a")
    bench.begin("b")
    bench.rescue.stops_for_ram("b", "2", "RAM was about to run out")
    bench.end(MemoryError())
    assert "ran out of RAM" in bench.rescue.facts("b")["failure"]["text"]


@pytest.mark.parametrize("stopped", [None, "another"])
def test_a_prompt_that_its_user_interrupted_is_not_run_again(bench, stopped):
    bench.begin()
    if stopped is not None:
        bench.rescue.stops_for_ram(stopped, "2", "RAM was about to run out")
    bench.end(error=None, messages=STOPPED)
    assert bench.host.queued == [] and bench.rescue.facts("a")["failure"] is None

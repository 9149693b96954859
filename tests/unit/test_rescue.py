"""When a prompt gets its second life, what is queued then, and who is told."""

import threading

import pytest
import torch

from headroom.base.node_types import from_object_info
from headroom.base.refusals import NotKnown, Refused
from headroom.measure.journal import OomAttempt
from headroom.models.loaded import LoadedModel
from headroom.rescue.rescue import Rescue

OOM = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has ...")
CLASSES = {
    "Load": {"input": {}, "output": ["MODEL", "VAE"]},
    "Sample": {"input": {"required": {"model": ["MODEL"]}}, "output": ["LATENT"]},
    "Decode": {"input": {"required": {"samples": ["LATENT"], "vae": ["VAE"]}},
               "output": ["IMAGE"]},
    "Save": {"input": {"required": {"images": ["IMAGE"]}}, "output": [], "output_node": True},
}


class Registry:
    def node_type(self, class_type):
        found = CLASSES.get(class_type)
        return from_object_info(found) if found else None

    def is_core(self, type_name):
        return True


class Host:
    """ComfyUI's queue with one prompt in it."""

    def __init__(self):
        self.running = None
        self.history = {}
        self.queued = []
        self.events = []
        self.refusal = None
        self.interrupted = self.keeps_nothing = False
        self.uncacheable = frozenset()

    def running_item(self):
        return self.running

    def history_entry(self, prompt_id):
        return self.history.get(prompt_id)

    def is_known(self, prompt_id):
        return prompt_id in self.history or any(item[1] == prompt_id for item in self.queued)

    def validated(self, prompt_id, prompt, outputs):
        if self.refusal:
            raise ValueError(self.refusal)
        return outputs

    def put_first(self, after, prompt_id, prompt, extra, outputs, sensitive):
        self.queued.insert(0, (after + 0.5, prompt_id, prompt, extra, outputs, sensitive))

    def interrupt_is_asked(self):
        return self.interrupted

    def keeps_no_results(self):
        return self.keeps_nothing

    def uncacheable_nodes(self, prompt_id):
        return self.uncacheable

    def send_event(self, event, data, client_id):
        self.events.append((event, data, client_id))


PROMPT = {
    "1": {"class_type": "Load", "inputs": {}},
    "2": {"class_type": "Sample", "inputs": {"model": ["1", 0]}, "_meta": {"title": "Hi-res"}},
    "3": {"class_type": "Decode", "inputs": {"samples": ["2", 0], "vae": ["1", 1]}},
    "4": {"class_type": "Save", "inputs": {"images": ["3", 0]}},
}
AUTOMATIC = {"headroom": {"rescue": True}, "client_id": "me"}


def type_name(error):
    """The name of its type as ComfyUI writes it."""
    module, name = type(error).__module__, type(error).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


class Bench:
    """A rescue, its host, and prompts that fail on it."""

    def __init__(self):
        self.host = Host()
        self.purged = []
        model = LoadedModel(
            id="m1", kind="diffusion model", class_name="BaseModel", file="sd15.safetensors",
            device="cuda:0", loaded_bytes=3 << 30, total_bytes=3 << 30, dynamic=False, patcher=None,
        )
        self.rescue = Rescue(self.host, Registry(), self.purged.append, lambda: [model])

    def begin(self, prompt_id="a", prompt=PROMPT, extra=AUTOMATIC, outputs=("4",)):
        self.host.running = (3, prompt_id, prompt, extra, list(outputs), {"api_key": "secret"})
        self.rescue.prompt_begins()

    def end(self, error=OOM, failed="2", executed=("1",), cached=(), messages=()):
        item, self.host.running = self.host.running, None
        told = [("execution_start", {}), ("execution_cached", {"nodes": list(cached)}), *messages]
        if error is not None:
            self.rescue.error_is_handled(error)
            told.append(("execution_error", {
                "node_id": failed, "node_type": item[2][failed]["class_type"],
                "exception_type": type_name(error),
                "exception_message": f"{error}\n", "executed": list(executed),
            }))
        self.host.history[item[1]] = {"prompt": item[:5], "status": {"messages": told}}
        self.rescue.prompt_is_over()

    def fail(self, prompt_id="a", extra=AUTOMATIC, **how):
        self.begin(prompt_id, extra=extra)
        self.end(**how)

    @property
    def only_queued(self):
        [item] = self.host.queued
        return item


@pytest.fixture
def bench():
    return Bench()


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


def test_what_can_not_come_from_the_cache_is_guarded_although_it_had_finished(bench):
    bench.host.uncacheable = frozenset({"1"})
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


def test_everything_is_unloaded_before_a_second_life_and_only_then(bench):
    bench.fail()
    assert bench.purged == []
    item = bench.only_queued
    bench.begin(item[1], item[2], item[3], item[4])
    assert bench.purged == [False]
    bench.end(None)
    bench.begin("b")
    assert bench.purged == [False]


def test_before_a_second_life_after_ram_ran_out_ram_is_freed_too(bench):
    bench.fail(error=MemoryError("not enough memory"))
    bench.begin(bench.only_queued[1])
    assert bench.purged == [True]


def test_a_second_life_that_fails_is_the_end_and_its_text_names_both(bench):
    bench.fail()
    new_id, prompt = bench.only_queued[1:3]
    bench.host.queued.clear()
    assert bench.rescue.about_first_life() == ""
    bench.begin(new_id, prompt)
    assert "second try of prompt a: Hi-res (node 2)" in bench.rescue.about_first_life()
    bench.end(failed="3")
    assert bench.host.queued == []
    text = bench.host.events[-1][1]["failure"]["text"]
    assert "second try of prompt a" in text
    assert "Decode (node 3)" in text and "Hi-res (node 2)" in text
    assert bench.rescue.facts(new_id)["failure"]["can_rescue"] is False
    with pytest.raises(Refused, match="itself the second try of prompt a"):
        bench.rescue.ask(new_id)


@pytest.mark.parametrize("error", [
    RuntimeError("CUDA error: an illegal memory access was encountered"), ValueError("wrong"), None,
])
def test_another_error_or_none_is_left_alone(bench, error):
    bench.fail(error=error)
    assert bench.host.queued == [] and bench.host.events == []
    with pytest.raises(Refused, match="did not end in an out-of-memory error"):
        bench.rescue.ask("a")


@pytest.mark.parametrize("error", [
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    MemoryError("not enough memory"), RuntimeError("MPS backend out of memory (MPS ...)"),
    type("PackError", (torch.OutOfMemoryError,), {})("the sampler is full"),
])
def test_every_family_is_rescued(bench, error):
    bench.fail(error=error)
    assert bench.only_queued


def test_an_interrupt_is_never_answered_by_another_run(bench):
    bench.begin()
    bench.end(None, messages=[("execution_interrupted", {"node_id": "2"})])
    assert bench.host.queued == []
    bench.host.interrupted = True  # asked for, but the error came first
    bench.fail("b")
    assert bench.host.queued == [] and bench.host.events == []


def test_after_the_queue_was_cleared_nothing_is_queued(bench):
    bench.begin()
    bench.rescue.queue_is_cleared()
    bench.end()
    assert bench.host.queued == []
    bench.fail("b")  # the next prompt is another matter
    assert bench.only_queued


def test_offering_queues_nothing_until_it_is_asked_for(bench):
    bench.fail(extra={"client_id": "me"})
    assert bench.host.queued == []
    [(_, data, _)] = bench.host.events
    assert data["rescued_as"] is None and data["failure"]["can_rescue"] is True
    answer = bench.rescue.ask("a")
    assert answer["prompt_id"] == bench.only_queued[1] and answer["rescued_from"] == "a"
    with pytest.raises(Refused, match="was run again already"):
        bench.rescue.ask("a")


def test_a_second_life_that_was_deleted_before_it_ran_can_be_asked_for_again(bench):
    bench.fail()
    bench.host.queued.clear()
    assert bench.rescue.ask("a")["prompt_id"] == bench.only_queued[1]


def test_a_second_life_that_ran_is_the_only_one_even_if_the_history_is_cleared(bench):
    bench.fail()
    item = bench.only_queued
    bench.begin(item[1], item[2])
    bench.host.queued.clear()
    bench.end(None)
    bench.host.history.clear()
    with pytest.raises(Refused, match="was run again already"):
        bench.rescue.ask("a")


def test_what_an_expanded_node_left_out_counts_for_the_users_node(bench):
    bench.begin()
    left_out(bench, "2.0.0.1")
    bench.end(None)
    assert bench.rescue.facts("a")["failure"]["node_id"] == "2"


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


def test_a_prompt_that_comfyui_refuses_is_told_in_one_sentence(bench):
    bench.host.refusal = "ComfyUI refuses the prompt: node Sample does not exist."
    bench.fail()
    assert bench.host.queued == []
    [(_, data, _)] = bench.host.events
    assert "It cannot run again: ComfyUI refuses the prompt" in data["failure"]["text"]
    with pytest.raises(Refused, match="node Sample does not exist"):
        bench.rescue.ask("a")


def test_an_error_that_was_survived_does_not_make_a_later_one_out_of_memory(bench):
    bench.begin()
    bench.rescue.error_is_handled(OOM)
    bench.end(ValueError("wrong"))
    assert bench.host.queued == []


def test_a_fallback_that_fails_because_memory_had_run_out_counts_as_it(bench, monkeypatch):
    monkeypatch.setattr("headroom.rescue.rescue.executing_node", lambda: ("a", "3"))
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


def left_out(bench, node_id, prompt_id="a"):
    entry = OomAttempt(prompt_id, node_id, 0, "went on", 0.0, "ERROR lora x", False, 0.0, 1)
    bench.rescue.note(entry)


def test_a_picture_without_a_part_of_its_lora_is_made_again_with_whatever_used_that_model(bench):
    prompt = {**PROMPT, "6": {"class_type": "Sample", "inputs": {"model": ["1", 0]}},
              "7": {"class_type": "Sample", "inputs": {"model": ["1", 0]}}}
    bench.begin(prompt=prompt)
    left_out(bench, "2")
    bench.end(None, cached=("7",))
    queued = bench.only_queued
    assert queued[4] == ["4"]
    assert [name for name in "123467" if queued[2][name] != prompt[name]] == ["2", "3", "6"]
    assert bench.rescue.facts("a")["failure"]["is_incomplete"] is True


def test_what_was_left_out_is_made_good_too_where_another_node_failed_later(bench):
    bench.begin()
    left_out(bench, "2")
    bench.end(failed="3", executed=("1", "2"))
    assert bench.only_queued[2]["2"]["inputs"]["model"] == ["headroom-guard-1-0", 0]


def test_what_a_node_left_out_in_another_prompt_does_not_count(bench):
    bench.begin()
    left_out(bench, "2", "another")
    bench.end(None)
    assert bench.host.queued == []


def test_a_silent_log_is_made_up_for_by_the_history(bench):
    bench.begin()
    bench.rescue.error_is_handled = lambda error: None
    bench.end(type("OutOfMemoryError", (Exception,), {})("CUDA out of memory. Tried to allocate "
                                                         "2.00 GiB."))
    assert bench.only_queued
    assert bench.rescue.facts("a")["failure"]["asked_mib"] == 2048.0


def test_whoever_sees_the_failure_in_the_history_first_finds_the_decision(bench):
    bench.begin()
    bench.rescue.prompt_is_over, told = lambda *_: None, bench.rescue.prompt_is_over
    bench.end()
    bench.rescue.prompt_is_over = told
    assert bench.host.queued == []
    assert bench.rescue.facts("a")["rescued_as"] == bench.only_queued[1]


def test_who_asks_while_the_decision_is_being_made_waits_for_it(bench):
    asked, answers = threading.Event(), []

    def ask():
        asked.set()
        answers.append(bench.rescue.facts("a")["rescued_as"])

    asking = threading.Thread(target=ask)

    def validated(prompt_id, prompt, outputs):  # in the middle of the decision
        asking.start()
        asked.wait(5)
        asking.join(0.2)
        return outputs

    bench.host.validated = validated
    bench.fail()
    asking.join(5)
    assert answers == [bench.only_queued[1]]


def test_the_users_prompt_in_the_history_is_not_touched(bench):
    bench.fail()
    queued = bench.only_queued[2]
    queued["1"]["is_changed"] = [1]  # as ComfyUI does while it runs
    assert "is_changed" not in PROMPT["1"]
    assert bench.host.history["a"]["prompt"][2] == PROMPT

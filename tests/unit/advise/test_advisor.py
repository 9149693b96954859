"""Advice on the runs of a server: which prompt it is about, what was followed, what was learned."""

import copy
from dataclasses import replace

import pytest
from support.advice import CLIP, PROMPT, UNET, Registry
from support.recorder import Records

from headroom.advise.about_run import about_strain
from headroom.advise.advisor import Advisor
from headroom.advise.applied import applied
from headroom.advise.finding import Bounds, Finding
from headroom.advise.words import lines_of
from headroom.base.graph import Graph
from headroom.base.guards import guarded
from headroom.base.said import NotKnown
from headroom.host.types import Held, NodeLabel, Outcome
from headroom.record.memory import Reading, Use
from headroom.record.nodes import NodeTable
from headroom.record.run import Run
from tools.prompt_edit import apply_edit

MIB = 1 << 20


def run_of(prompt_id, encoder_mib, devices=("cuda:0",), prompt=PROMPT, guard=None):
    """Encoding takes 600 MiB; the sampler 1000, beside what stays of the encoder."""
    def at(seconds, mib, *held):
        models = tuple(Held(facts, "cuda:0", size * MIB) for facts, size in held)
        uses = tuple(Use(mib * MIB, mib * MIB, None, 8192 * MIB, mib * MIB) for _ in devices)
        return Reading(seconds, 0, uses, models)

    def label(node_id):
        return NodeLabel(node_id, prompt[node_id]["class_type"], f"Title {node_id}", node_id)

    run = Run(prompt_id, devices, at(0, 0), 0.0, NodeTable(label))
    run.node_starts("6", at(1, 0))
    run.node_finishes("6", at(2, 600, (CLIP, 600)))
    run.node_starts("3", at(3, encoder_mib, (CLIP, encoder_mib)))
    run.node_finishes("3", at(4, 1000 + encoder_mib, (CLIP, encoder_mib), (UNET, 1000)))
    if guard is not None:
        held = ((CLIP, encoder_mib), (UNET, 1000))
        run.node_starts(guard, at(4, 1000 + encoder_mib, *held))
        run.node_finishes(guard, at(5, 1000 + encoder_mib, *held))
    run.end(at(5, 1000 + encoder_mib))
    run.settle(Outcome("success"))
    return run


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def prompts():
    return {}


@pytest.fixture
def advisor(records, prompts):
    return Advisor(records, prompts.get, Registry())


@pytest.fixture
def first(records, prompts):
    records.add(run_of("first", 600))
    prompts["first"] = PROMPT


def encode(advice):
    return next(one for one in advice if one["kind"] == "encode_to_cpu")


def followed(records, prompts, advisor, name="second", left_mib=0):
    """The prompt runs again with the encoders of the advice."""
    prompts[name] = apply_edit(PROMPT, encode(advisor.advice("first"))["edit"])
    records.add(run_of(name, left_mib))


def test_a_prompt_without_a_record_is_told_in_a_sentence(advisor):
    with pytest.raises(NotKnown, match="No record of this prompt"):
        advisor.advice("nobody")


def test_advice_rests_on_the_record_and_on_the_prompt_that_comfyui_still_has(
    advisor, first, prompts
):
    one = encode(advisor.advice("first"))
    assert one["saves_mib"] == [580, 620] and one["measured_mib"] is None
    prompts.clear()
    assert advisor.advice("first") == []


def test_a_run_that_was_guarded_for_its_user_is_advised_on_as_its_users_prompt(
    advisor, records, prompts
):
    prompts["plain"] = PROMPT
    prompts["guarded"] = with_guards = guarded(Graph(PROMPT, Registry())).prompt
    records.add(run_of("plain", 600))
    records.add(run_of("guarded", 600, prompt=with_guards, guard="headroom-guard-4-2"))
    plain, ours = advisor.advice("plain"), advisor.advice("guarded")
    assert [one["id"] for one in ours] == [one["id"] for one in plain]
    assert [one["edit"] for one in ours] == [one["edit"] for one in plain]
    assert advisor.more_of("guarded") == advisor.more_of("plain")


def test_nodes_that_comfyui_did_not_look_at_are_passed_over(advisor, first, prompts):
    prompts["first"] = {**PROMPT, "x": None, "y": {"class_type": "Foo"}, "z": {"inputs": {}}}
    assert encode(advisor.advice("first"))


def test_a_run_on_the_cpu_has_no_advice(advisor, records, prompts):
    records.add(run_of("p", 0, devices=()))
    prompts["p"] = PROMPT
    assert advisor.advice("p") == [] and advisor.more_of("p") == {
        "fits": None, "slower": [], "workflow_id": None}


def test_the_measured_saving_of_followed_advice_is_told_beside_the_predicted_one(
    advisor, first, records, prompts
):
    followed(records, prompts, advisor, left_mib=200)
    one = encode(advisor.advice("first"))
    assert one["measured_mib"] == {"mib": 400.0, "run": "second", "together": []}
    assert "it saved 400 MiB" in lines_of([one])[0]
    assert not any(one["kind"] == "encode_to_cpu" for one in advisor.advice("second"))


@pytest.mark.parametrize("change", [
    {"status": "error"}, {"devices": ("cuda:1",)}])
def test_a_run_that_failed_or_ran_on_another_card_measures_no_saving(
    advisor, first, records, prompts, change
):
    followed(records, prompts, advisor, left_mib=200)
    records.look("second", lambda run: vars(run).update(change))
    assert encode(advisor.advice("first"))["measured_mib"] is None


def test_only_advice_about_the_peak_shares_in_its_measured_saving(advisor, first, records, prompts):
    """The purge at the end frees memory after the run, so it has no share in the lower peak."""
    found = advisor.advice("first")
    end = next(one for one in found if one["values"].get("after"))
    followed(records, prompts, advisor, left_mib=200)
    prompts["second"] = apply_edit(prompts["second"], end["edit"])
    now = advisor.advice("first")
    assert encode(now)["measured_mib"] == {"mib": 400.0, "run": "second", "together": []}
    assert [one["measured_mib"] for one in now if one["id"] == end["id"]] == [None]


def test_making_it_fit_tells_the_peak_to_expect_after_each_step(advisor, first):
    steps = advisor.advice("first", into_gib=1.25)
    assert [one["kind"] for one in steps] == ["encode_to_cpu"]
    assert steps[0]["expected_mib"] == [980, 1020]
    assert advisor.advice("first", into_gib=2) == []


def test_finished_runs_tell_the_smallest_gpu_that_fits(advisor, first, records):
    told = advisor.more_of("first")["fits"]
    assert told["smallest_mib"] == [1000, 1600] and advisor.more_of("first")["fits"] is told
    records.runs["first"].status = "running"
    records.runs["first"].started_at = 9.0
    assert advisor.more_of("first")["fits"] is None
    assert advisor.more_of("nobody") == {"fits": None, "slower": [], "workflow_id": None}


@pytest.mark.parametrize("status", ["error", "interrupted"])
def test_the_need_of_a_run_that_stopped_for_another_reason_is_unknown(
    advisor, first, records, monkeypatch, status
):
    """No record tells what it would have used after that."""
    records.runs["first"].status = status
    assert advisor.more_of("first")["fits"] is None
    failure = {"node_id": "3", "asked_mib": 100.0}
    monkeypatch.setattr(advisor, "facts", lambda _: {"failure": failure})
    assert advisor.more_of("first")["fits"]["smallest_mib"] == [1700, 1700]


def test_lines_of_advice_are_numbered_and_an_unknown_run_has_none(advisor, first):
    lines = advisor.lines("first")
    assert lines[0].startswith("1. ") and "saves 580 MiB to 620 MiB" in lines[0]
    assert advisor.lines("nobody") == []


FINDING = Finding("offload_after", Bounds(1, 2), {}, {}, ("3",), edit={"steps": [
    {"op": "insert", "ref": "a", "class_type": "HeadroomOffloadModel", "inputs": {}, "out": 1,
     "from": ["6", 0], "through": "after", "to": [["3", "positive"]],
     "links": {"model": ["4", 1]}}]})


def test_followed_advice_is_found_whatever_ids_the_canvas_gave():
    after = apply_edit(PROMPT, FINDING.edit)
    renamed = {"99" if key == "10" else key: node for key, node in after.items()}
    assert applied(PROMPT, renamed, [FINDING]) == [FINDING]


def test_of_two_pieces_of_advice_with_one_class_the_values_tell_which_was_followed():
    def encoding(node_ids, cache):
        step = {"op": "replace", "node": "6", "class_type": "HeadroomEncodeToCPU",
                "keep": {"clip": "clip", "text": "text"}, "inputs": {"cache": cache},
                "outputs": {"0": 0}}
        return Finding("encode_to_cpu", Bounds(1, 2), {}, {}, node_ids, edit={"steps": [step]})

    disk, plain = encoding(("6", "7"), "disk"), encoding(("6",), "off")
    assert applied(PROMPT, apply_edit(PROMPT, plain.edit), [disk, plain]) == [plain]
    assert applied(PROMPT, apply_edit(PROMPT, disk.edit), [disk, plain]) == [disk]


@pytest.mark.parametrize("change", [
    lambda prompt: prompt["3"]["inputs"].update(steps=50),
    lambda prompt: prompt["6"]["inputs"].update(text="a dog"),
    lambda prompt: prompt.pop("9"),
    lambda prompt: prompt["9"].update(class_type="PreviewImage"),
    lambda prompt: prompt.update(x={"class_type": "HeadroomPurgeVRAM", "inputs": {}}),
])
def test_a_prompt_that_differs_otherwise_followed_nothing(change):
    before = copy.deepcopy(PROMPT)
    before["3"]["inputs"]["steps"] = 20
    after = copy.deepcopy(apply_edit(before, FINDING.edit))
    change(after)
    assert applied(before, after, [FINDING]) == []
    assert applied(before, before, [FINDING]) == []


@pytest.mark.parametrize("devices", [("cuda:0",), ()])
def test_advice_on_a_failed_run_begins_with_what_its_error_means(advisor, records, devices):
    run = run_of("a", 600, devices=devices)
    run.settle(Outcome("error", "3", (), ("RuntimeError", "HostBuffer.read_file_slice failed")))
    records.add(run)
    first, *_ = advisor.advice("a")
    assert (first["id"], first["node_ids"], first["edit"]) == ("error-pinned_read", ["3"], None)
    assert "pinned memory" in first["text"]
    assert first["said"]["template"] == "{what} What helps: {do}."
    assert lines_of([first]) == [f"1. {first['text']}"]


def test_an_error_of_the_gpus_memory_is_left_to_the_advice_with_figures(advisor, records):
    run = run_of("a", 600)
    run.settle(Outcome("error", "3", (), ("OutOfMemoryError", "CUDA out of memory")))
    records.add(run)
    assert "error" not in {one["kind"] for one in advisor.advice("a")}


def test_a_spill_or_reads_from_disk_lead_to_advice_about_a_flag():
    run, flags = run_of("a", 600), {"--reserve-vram", "--disable-fast-disk"}
    record = run.nodes.records["3"]
    record.after = record.after._replace(
        models=(Held(replace(UNET, is_dynamic=True), "cuda:0", 1000 * MIB),))
    run.peak_rss_bytes = 500 * MIB
    assert about_strain(run, 1000 * MIB, flags.__contains__) == []
    record.spilled_bytes, record.read_bytes = 1240 * MIB, 3000 * MIB
    spill, reads = about_strain(run, 1000 * MIB, flags.__contains__)
    assert "1.2 GiB of VRAM into RAM while Title 3 #3 ran" in spill["text"]
    assert "--reserve-vram 1.7" in spill["text"] and "--disable-fast-disk" in reads["text"]
    assert about_strain(run, 800 * MIB, {"--disable-fast-disk"}.__contains__) == []  # RAM is full
    assert about_strain(run, 1000 * MIB, set().__contains__) == []
    record.read_bytes = 1000 * MIB
    assert about_strain(run, 1000 * MIB, {"--disable-fast-disk"}.__contains__) == []
    record.read_bytes, record.after = 3000 * MIB, record.after._replace(
        models=(Held(UNET, "cuda:0", 1000 * MIB),))  # its weights do not come page by page
    assert about_strain(run, 1000 * MIB, {"--disable-fast-disk"}.__contains__) == []

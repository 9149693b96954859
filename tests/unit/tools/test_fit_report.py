"""What `dev.py fit` prints of a run."""

import json
from dataclasses import replace

import pytest
from support.dry_runs import failure, sampler

from tools.fit_report import copied, report
from tools.fit_run import ADVISED, GUARDED, PLAIN, Trial
from tools.fit_verdict import Node, Verdict, verdict

FACTS = {"workflow": "w.json", "comfyui": "0.3.75", "capability": "8.9", "context_mib": 400,
         "made_pictures": [], "left_out": [], "limit": "", "side": 1024, "room_copied_mib": {},
         "files": {
             "vae/a.safetensors": {"mib": 160, "from": "published sizes"}}}


@pytest.mark.parametrize("why, word, told", [
    ("MistralConverter.__init__() got an unexpected keyword argument", "not loaded",
     "ComfyUI 0.3.75 does not load a.safetensors, and may not know this model yet "
     "(MistralConverter.__init__() got an unexpected keyword argument); name a newer one with "
     "--comfyui."),
    ("unable to mmap 25642121040 bytes from file <a.safetensors>: Cannot allocate memory (12)",
     "stopped", "needs RAM that this machine does not give (unable to mmap"),
])
def test_a_file_that_an_old_comfyui_or_a_machine_without_the_ram_does_not_load_is_named(
    why, word, told
):
    found = verdict([sampler()], ["3"], failure(why, out_of_memory=False), loads="a.safetensors")
    assert found.text == f"{word} in KSampler (3)"
    text = report([Trial(8, PLAIN, found, 4000, 1, [sampler(1.0)])], FACTS)
    assert "KSampler (3)" in text and told in text and "real values" not in text


def test_the_report_has_a_line_a_card_and_every_addition_on_a_line_of_its_own():
    nodes = [sampler(1.0, 1.0)]
    trials = [Trial(8, PLAIN, Verdict("streams", 500.0), 4000, 1, nodes),
              Trial(8, GUARDED, Verdict("resident"), 4000, 1, nodes),
              Trial(8, ADVISED, Verdict("resident"), 4000, 1, nodes, ("Use less.",)),
              Trial(6, PLAIN, Verdict("stopped", None, "Face (7)", "no face"), 4000, 1, nodes)]
    text = report([*trials[:2], replace(trials[2], peak_mib=2500.0), trials[3]], FACTS)
    assert [line.split()[-2:] for line in text.split("largest peak")[1].splitlines()[2:5]] == [
        ["4,000", "-"], ["4,000", "-"], ["2,500", "-"]]
    assert "8 GiB  streams 500 MiB a step  resident  resident" in text
    assert "Face (7) needs what a dry run does not have" in text and "8 GiB: Use less." in text
    for line in ("tensors and weights", "layout copies", "CUDA context", "kept by the allocator"):
        assert line in text
    assert json.dumps([trial.as_json() for trial in trials])


def test_a_verdict_near_a_cards_size_says_what_it_may_need_and_what_comes_then():
    node = replace(sampler(1.0, 0.0), need_mib=8000.0, workspace_mib=400.0, unmodelled_mib=500.0)
    near = Trial(8, PLAIN, Verdict("resident"), 8100, 1, [node],
                 at_worst=Verdict("streams", 300.0, most_mib=900.0))
    text = report([near], FACTS)
    assert "resident, or streams 300 to 900 MiB a step: needs 7.4 to 8.3 GiB" in text
    assert near.as_json()["range_mib"] == (7600.0, 8500.0)
    assert text.split("needs, GiB")[1].splitlines()[2].split() == "as it is 7.4 to 8.3".split()


def test_the_report_names_what_a_dry_run_left_out():
    trials = [Trial(8, PLAIN, Verdict("resident"), 4000, 1, [sampler(1.0)])]
    text = report(trials, {**FACTS, "left_out": ["a.safetensors (node 12)"]})
    assert "left out, so that the workflow needs somewhat more" in text
    assert "a.safetensors (node 12)" in text and "left out" not in report(trials, FACTS)


def encoding(copied_mib, gib):
    loader = Node("1", "CLIPLoader", "Load CLIP", 400.0, 400.0, 0.0, 0)
    encoder = Node("2", "CLIPTextEncode", "Encode", 900.0, 800.0, 0.0, 0, (), copied_mib)
    return Trial(gib, PLAIN, Verdict("resident"), 900.0, 1, [loader, encoder, sampler(9.0, 0.0)])


def test_an_encoder_that_streams_or_computes_on_the_cpu_is_told_beside_the_verdict():
    with_room = {"1": 500.0, "2": 0.0}  # loaded by the loader there, by the encoder on a card
    assert copied([encoding(500.0, 12), encoding(503.0, 8)], with_room) == ""
    told = copied([encoding(500.0, 12), encoding(1300.0, 6), encoding(0.0, 1)], with_room)
    assert [line.split()[-4:] for line in told.splitlines() if line.startswith("   in all")] == [
        ["500", "500", "1,300", "0"]]
    assert "computed on the CPU" in told and "KSampler" not in told

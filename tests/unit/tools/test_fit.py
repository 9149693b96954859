"""What `dev.py fit` makes of a run, which cards it takes, and what a dry run leaves out."""

import argparse
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.dry_runs import failure, sampler

from tools import fit, fit_range
from tools.errors import DevError
from tools.fit import amount, capability
from tools.fit import cards as parse_cards
from tools.fit_run import PLAIN, Fit, Trial
from tools.fit_verdict import Node, Verdict, nodes_of, verdict
from tools.lab import fake_cuda

MIB = 1 << 20
ASYNC = ("Allocation on device 0 would exceed allowed memory. (out of memory)\n"
         "Currently allocated     : 41.22 MiB\nRequested               : 128.00 MiB\n")


def test_where_a_dry_run_is_not_possible_one_sentence_says_so_before_anything_is_fetched(
    monkeypatch, tmp_path
):
    def fetched(*_):
        raise AssertionError

    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr(fit, "python_for", fetched)
    (tmp_path / "w.json").write_text("{}")
    with pytest.raises(DevError, match=r"^A dry run is not possible here: .*64-bit Linux"):
        fit.main(argparse.Namespace(workflow=tmp_path / "w.json"))


def test_a_python_without_pytorch_is_named_with_the_option_that_names_another(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("shutil.which", lambda name: name)
    told = fake_cuda().why_not()
    assert sys.executable in told and "--python" in told


@pytest.mark.parametrize("steps, text", [
    ((1640.0, 0.5, 0.5, 0.5), "resident"),
    ((1640.0, 1388.9, 1388.9, 1388.9), "streams 1,389 MiB a step"),
    ((1640.0,), "resident"),
    ((), "resident"),
])
def test_the_first_step_loads_and_only_the_later_ones_stream(steps, text):
    assert verdict([sampler(*steps)], ["3"]).text == text


def test_bytes_that_a_step_copies_on_a_card_with_room_are_no_streaming():
    nodes = [sampler(9.0, 300.0, 300.0)]
    assert verdict(nodes, ["3"], anyway_mib={"3": 295.0}).text == "resident"
    assert verdict(nodes, ["3"], anyway_mib={"3": 100.0}).text == "streams 200 MiB a step"


def test_only_the_steps_of_samplers_count_and_the_one_that_moves_most():
    nodes = [sampler(9.0, 20.0, 20.0), sampler(0.0, 500.0, 500.0, node_id="4"),
             sampler(0.0, 900.0, node_id="5")]
    assert verdict(nodes, ["3", "4"]).text == "streams 500 MiB a step"


@pytest.mark.parametrize("message, text", [
    (ASYNC, "fails in KSampler (3), asks for 128 MiB"),
    ("CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 8 GiB",
     "fails in KSampler (3), asks for 4,096 MiB"),
    ("CUDA out of memory. Tried to allocate 2.00 KiB. GPU 0 has a total capacity of 8 GiB",
     "fails in KSampler (3), asks for less than 1 MiB"),
    ("OOM Guard could not finish decoding: after 3 attempts the call still asked for 1,474.6 MiB "
     "while 937.2 MiB of 6,144.0 MiB were free.", "fails in KSampler (3), asks for 1,475 MiB"),
    ("CUDA error: out of memory", "fails in KSampler (3), asks for more than there is"),
])
def test_a_failure_names_the_node_and_what_it_asked_for(message, text):
    assert verdict([sampler()], ["3"], failure(message)).text == text


def test_another_error_is_a_node_that_needs_real_values():
    found = verdict([sampler()], ["3"], failure("no face was found", out_of_memory=False))
    assert (found.word, found.why) == ("stopped", "no face was found")
    assert found.text == "stopped in KSampler (3)"


def test_a_request_for_an_impossible_size_gives_no_verdict():
    message = "CUDA out of memory. Tried to allocate more than 1EB memory."
    assert verdict([sampler()], ["3"], failure(message)).word == "stopped"


def test_the_need_of_a_node_is_tensors_pages_and_context_and_never_above_its_peak():
    record = {"nodes": [{"node_id": "3", "class_type": "KSampler", "title": "Mine"},
                        {"node_id": "9", "class_type": "SaveImage", "title": None}]}
    taken = [{"node_id": "3", "peak_bytes": 900 * MIB, "allocated_bytes": 300 * MIB,
              "pages_bytes": 100 * MIB, "workspace_bytes": 64 * MIB, "refused": 2,
              "steps": [5 * MIB], "htod_bytes": 7 * MIB}]
    (node,) = nodes_of(record, taken, 400, fit_range.Unmodelled())
    assert node == Node("3", "KSampler", "Mine", 900, 800, 64, 2, (5,), 7, 7 * 64 + 470)
    assert node.range_mib == (800 - 64, 800 + 7 * 64 + 470)
    taken[0]["allocated_bytes"] = 2000 * MIB
    assert nodes_of(record, taken, 400)[0].need_mib == 900


@pytest.mark.parametrize("kind, texts, says", [
    (parse_cards, ("", "8,", "big", "0,8", "-6", "nan", "inf", "8,1e30"), "GiB with commas"),
    (capability, ("new", "8", "-8.9"), "expected a number"),
    (amount, ("-1", "nan", "inf", "much"), "expected a number"),
])
def test_settings_that_no_card_has_are_refused(kind, texts, says):
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError, match=says):
            kind(text)


def test_unmodelled_memory_adds_to_the_bytes_that_stream():
    node = replace(sampler(0.0, 500.0, 500.0), unmodelled_mib=100.0)
    found = verdict([node], ["3"], layer_mib=72.0)
    assert found.text == "streams 500 to 672 MiB a step"


@pytest.mark.parametrize("near, worst, found", [
    (True, "streams", "streams"), (True, "resident", None), (False, "streams", None)])
def test_a_resident_run_near_the_cards_size_is_tried_on_a_smaller_card(near, worst, found):
    class Dry(Fit):
        def trial(self, gib, way, prompt, applied=()):
            cards.append(gib)
            return replace(before, verdict=Verdict(worst, 1.0)), "id"

    cards = []
    node = replace(sampler(1.0, 0.0), unmodelled_mib=512.0)
    before = Trial(8, PLAIN, Verdict("resident"), 8000 if near else 7000, 1, [node])
    dry = Dry(None, {}, {"KSampler": {}}, guard=False, context_mib=400, show=False)
    dry.registry = SimpleNamespace(samples=lambda name: name == "KSampler")
    again = dry.looked_at_again(before, {})
    assert (again.at_worst and again.at_worst.word) == found
    assert cards == ([7.5] if near else [])


@pytest.mark.parametrize("guard, at_12, ran", [
    (False, 9000, [1024, 8, 12]), (False, 9001, [1024, 8, 12, 24]),
    (True, 9000, [1024, 8, 12, 24])])
def test_a_larger_card_than_one_that_took_what_room_takes_is_not_run(guard, at_12, ran):
    class Dry(Fit):
        def trial(self, gib, way, prompt, applied=()):
            cards.append(gib)
            peak = {8: 8000, 12: at_12}.get(gib, 9000)
            steps = prompt["3"]["inputs"]["steps"]
            node = replace(sampler(1.0, *[0.0] * (steps - 1)), peak_mib=float(peak))
            return Trial(gib, way, Verdict("resident"), peak, 1, [node]), "id"

        def prompts(self):
            return {PLAIN: self.prompt}

        def _advice(self, prompt_id):
            return []

    cards = []
    prompt = {"3": {"class_type": "KSampler", "inputs": {"steps": 3}}}
    dry = Dry(None, prompt, {"KSampler": {}}, guard=guard, context_mib=400, show=False)
    dry.registry = SimpleNamespace(samples=lambda name: name == "KSampler")
    trials = dry.cards([8, 12, 24])
    assert cards == ran and [trial.card_gib for trial in trials] == [8, 12, 24]
    steps = [len(trial.nodes[0].steps_mib) for trial in (*trials, dry.look_at_room())]
    assert steps == [3, 3, 3, 2]


@pytest.mark.parametrize("text, card", [("", 8), ("6", 6), ("50%", 4), ("off", 8), ("much", 8)])
def test_a_limit_counts_as_the_cards_size(text, card):
    assert fit_range.ceiling_gib(fit_range.limit_of({"HEADROOM_VRAM_LIMIT": text}), 8) == card


def test_a_fit_without_a_limit_imports_no_torch():
    code = ("import sys\nfrom tools import fit, fit_prompt, fit_range, fit_report\n"
            "fit._without_torch()\nfit_prompt.ObjectInfo({})\nfit_range.limit_of({})\n"
            "print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          cwd=fit.ROOT)
    assert done.stdout == "False\n", done.stderr

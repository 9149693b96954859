"""What `dev.py fit` makes of a run, which cards it takes, and what a dry run leaves out."""

import argparse
import importlib
import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support.comfyui import stand_in
from support.dry_pack import dry_part

from tools import dry_server, fit, fit_range
from tools.errors import DevError
from tools.fit import amount, capability
from tools.fit import cards as parse_cards
from tools.fit_report import copied, report
from tools.fit_run import ADVISED, GUARDED, PLAIN, Fit, Trial
from tools.fit_verdict import Node, Verdict, nodes_of, verdict

MIB = 1 << 20
ASYNC = ("Allocation on device 0 would exceed allowed memory. (out of memory)\n"
         "Currently allocated     : 41.22 MiB\nRequested               : 128.00 MiB\n")


FACTS = {"workflow": "w.json", "comfyui": "0.3.75", "capability": "8.9", "context_mib": 400,
         "made_pictures": [], "left_out": [], "limit": "", "side": 1024, "room_copied_mib": {},
         "files": {
             "vae/a.safetensors": {"mib": 160, "from": "published sizes"}}}


def sampler(*steps, node_id="3", title="KSampler"):
    return Node(node_id, "KSampler", title, 4000.0, 3600.0, 0.0, 0, steps)


def failure(message, out_of_memory=True, node_id="3"):
    return SimpleNamespace(node_id=node_id, node_type="KSampler", exception_message=message,
                           out_of_memory=out_of_memory)


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
    ("OOM Guard gave up after 0 attempts: 1,474.6 MiB asked, 937.2 of 6,144 MiB free",
     "fails in KSampler (3), asks for 1,475 MiB"),
    ("CUDA error: out of memory", "fails in KSampler (3), asks for more than there is"),
])
def test_a_failure_names_the_node_and_what_it_asked_for(message, text):
    assert verdict([sampler()], ["3"], failure(message)).text == text


def test_another_error_is_a_node_that_needs_real_values():
    found = verdict([sampler()], ["3"], failure("no face was found", out_of_memory=False))
    assert (found.word, found.why) == ("stopped", "no face was found")
    assert found.text == "stopped in KSampler (3)"


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


def test_a_language_model_ends_its_text_early_dry_whatever_it_writes(monkeypatch):
    class BaseGenerate:
        def generate(self, embeds, max_length=256, stop_tokens=None):
            written = 1
            while written < max_length and 0 not in stop_tokens:
                written += 1
            return written, max_length

    def sample(ids, max_new_tokens=2048, eos_token_id=7):
        codes = []
        while len(codes) < max_new_tokens and not eos_token_id == 0:
            codes.append(0)
        return codes

    stand_in(monkeypatch, "comfy.text_encoders.llama", BaseGenerate=BaseGenerate)
    music = stand_in(monkeypatch, "comfy.text_encoders.ace15",
                     sample_manual_loop_no_classes=sample)
    dry = dry_part("run")
    dry.write_few_words()
    dry.write_few_words()  # before every prompt
    assert BaseGenerate().generate(None, 512, stop_tokens=[7]) == (dry.WORDS, 512)
    assert BaseGenerate().generate(None, max_length=2) == (2, 2)
    assert len(music.sample_manual_loop_no_classes([1])) == dry.WORDS - 1
    assert music.sample_manual_loop_no_classes([1], max_new_tokens=2) == [0, 0]


def test_a_dry_run_reads_no_weight_looks_for_no_holder_and_begins_without_lessons(monkeypatch):
    from headroom.cast import tensor
    from headroom.guard import lessons
    from headroom.measure.snapshot import snapshot
    from headroom.models.ram_held import SeldomHeld

    monkeypatch.setattr(tensor, "is_exact", tensor.is_exact)
    monkeypatch.setattr(SeldomHeld, "now", SeldomHeld.now)
    lessons.learn("a call", 4, 100, 50)
    dry = dry_part("run")
    dry.look_at_no_weight()
    dry.look_for_no_holder()
    dry.forget_lessons()
    assert SeldomHeld().now(snapshot()) is None
    assert tensor.is_exact(torch.float32, torch.bfloat16)
    assert lessons.recall("a call", 100) is None


def test_a_dry_mesh_is_made_of_a_corner_of_the_voxels(monkeypatch):
    seen = []
    module = stand_in(
        monkeypatch, "/a/comfy_extras/nodes_hunyuan3d", voxel_to_mesh_surfnet=lambda voxels,
        threshold: seen.append((voxels.shape, threshold)))
    dry = dry_part("run")
    dry.mesh_a_corner()
    dry.mesh_a_corner()  # before every prompt
    module.voxel_to_mesh_surfnet(torch.zeros(9, 9, 9), threshold=0.6)
    assert seen == [((2, 2, 2), 0.6)]


def test_shapes_are_read_of_layers_that_have_weights(monkeypatch):
    memory = stand_in(monkeypatch, "comfy.memory_management", aimdo_enabled=True)
    dry = dry_part("shapes")
    with dry.layers_with_weights():
        assert not memory.aimdo_enabled
    assert memory.aimdo_enabled


def test_a_comfyui_that_lacks_a_switch_which_is_off_still_names_a_models_weights(monkeypatch):
    class ModelParams:
        def __init__(self, width):
            self.width = width

    class Model(torch.nn.Linear):
        def __init__(self, device=None, **params):
            super().__init__(ModelParams(**params).width, 2, bias=False, device=device)

    monkeypatch.syspath_prepend(fit.ROOT / "tools")
    public = importlib.import_module("public_architectures")
    monkeypatch.setattr(public, "_ops", dict)
    stand_in(monkeypatch, "an_older_host", Model=Model, ModelParams=ModelParams)
    assert public.of_class("an_older_host:Model", '{"width": 3, "newer": false}') == {
        "weight": (2, 3)}
    with pytest.raises(TypeError, match="newer"):
        public.of_class("an_older_host:Model", '{"width": 3, "newer": true}')


def test_a_fit_without_a_limit_imports_no_torch():
    code = ("import sys\nfrom tools import fit, fit_prompt, fit_range, fit_report\n"
            "fit._without_torch()\nfit_prompt.ObjectInfo({})\nfit_range.limit_of({})\n"
            "print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          cwd=fit.ROOT)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(("told", "found"), [
    # Each step is told; a bar that stands still tells of none.
    ([(1, 4, 1640), (1, 4, 1640), (2, 4, 2140), (3, 4, 2640), (4, 4, 3141)],
     [1640, 500, 500, 501]),
    ([(1, 4, 1640), (4, 4, 3141)], [1640, 500, 500, 501]),  # what came too soon was left out
    ([(5, 20, 10), (1, 3, 12), (2, 3, 14), (6, 20, 15)], [10, 2, 2, 1]),  # a bar within a step
    ([(0.25, 1.0, 10), (0.5, 1.0, 14), (0.25, 1.0, 15)], [10, 4, 1]),  # one of fractions
])
def test_steps_that_comfyui_does_not_tell_are_counted_with_their_share(told, found):
    counted = []
    steps = dry_part("steps").Steps(counted, 0)
    for value, most, copied_bytes in told:
        steps.told(value, most, copied_bytes)
    assert counted == found


@pytest.mark.parametrize(("flags", "expected"), [
    ('"--disable-dynamic-vram" "--disable-pinned-memory"', ("--disable-pinned-memory",)),
    ('"--disable-pinned-memory"', ()),
    ('"--disable-cuda-graphs"', ("--disable-cuda-graphs",)),
])
def test_a_dry_server_pins_no_weights_and_records_no_graphs(tmp_path, flags, expected):
    (tmp_path / "comfy").mkdir()
    (tmp_path / "comfy" / "cli_args.py").write_text(flags)
    assert dry_server.needed_flags(tmp_path) == expected

"""What `dev.py fit` makes of a run, and which files it finds for one."""

import argparse
import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from devtools import fit_files, public_models
from devtools.dry_server import unpinned
from devtools.errors import DevError
from devtools.fit import amount, capability
from devtools.fit import cards as parse_cards
from devtools.fit_prompt import (
    STEPS,
    ObjectInfo,
    advised,
    fewer_steps,
    guarded,
    without_noise_trees,
)
from devtools.fit_report import report
from devtools.fit_run import ADVISED, GUARDED, PLAIN, Trial
from devtools.fit_verdict import Node, Verdict, nodes_of, verdict
from devtools.sparse_files import SparseFile, Weight

MIB = 1 << 20
DRY_RUN = Path(fit_files.__file__).parent / "packs" / "headroom_dry" / "headroom_dry_run.py"
ASYNC = ("Allocation on device 0 would exceed allowed memory. (out of memory)\n"
         "Currently allocated     : 41.22 MiB\nRequested               : 128.00 MiB\n")


def sampler(*steps, node_id="3", title="KSampler"):
    return Node(node_id, "KSampler", title, 4000.0, 3600.0, 0.0, 0, steps)


def failure(message, out_of_memory=True, node_id="3"):
    return SimpleNamespace(node_id=node_id, node_type="KSampler", exception_message=message,
                           out_of_memory=out_of_memory)


@pytest.mark.parametrize("steps, text", [
    ((1640.0, 0.5, 0.5, 0.5), "resident"),
    ((1640.0, 1388.9, 1388.9, 1388.9), "streams 1,389 MiB a step"),
    ((1640.0,), "resident"),
    ((), "resident"),
])
def test_the_first_step_loads_and_only_the_later_ones_stream(steps, text):
    assert verdict([sampler(*steps)], ["3"]).text == text


def test_what_a_step_copies_on_a_card_with_room_is_no_streaming():
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
    ("CUDA error: out of memory", "fails in KSampler (3), asks for more than there is"),
])
def test_a_failure_names_the_node_and_what_it_asked_for(message, text):
    assert verdict([sampler()], ["3"], failure(message)).text == text


def test_another_error_is_a_node_that_needs_real_values():
    found = verdict([sampler()], ["3"], failure("no face was found", out_of_memory=False))
    assert (found.word, found.why) == ("stopped", "no face was found")
    assert found.text == "stopped in KSampler (3)"


def test_a_size_that_was_never_computed_is_not_taken_for_a_need():
    message = "CUDA out of memory. Tried to allocate more than 1EB memory."
    assert verdict([sampler()], ["3"], failure(message)).word == "stopped"


def test_the_need_of_a_node_is_tensors_pages_and_context_and_never_above_its_peak():
    record = {"nodes": [{"node_id": "3", "class_type": "KSampler", "title": "Mine"},
                        {"node_id": "9", "class_type": "SaveImage", "title": None}]}
    taken = [{"node_id": "3", "peak_bytes": 900 * MIB, "allocated_bytes": 300 * MIB,
              "pages_bytes": 100 * MIB, "workspace_bytes": 64 * MIB, "refused": 2,
              "steps": [5 * MIB]}]
    (node,) = nodes_of(record, taken, context_mib=400)
    assert node == Node("3", "KSampler", "Mine", 900, 800, 64, 2, (5,))
    taken[0]["allocated_bytes"] = 2000 * MIB
    assert nodes_of(record, taken, 400)[0].need_mib == 900


INFO = {
    "Loader": {"input": {}, "output": ["MODEL"], "python_module": "nodes"},
    "KSampler": {"input": {"required": {"model": ["MODEL"], "steps": ["INT"]}},
                 "output": ["LATENT"], "python_module": "nodes"},
    "HeadroomOOMGuard": {"input": {"required": {"model": ["MODEL"]}}, "output": ["MODEL"],
                         "python_module": "custom_nodes.headroom"},
}
PROMPT = {
    "1": {"class_type": "Loader", "inputs": {"name": "a.safetensors"}},
    "3": {"class_type": "KSampler", "inputs": {"model": ["1", 0], "steps": 20}},
}


def test_the_guarded_prompt_has_a_guard_between_the_loader_and_the_sampler():
    registry = ObjectInfo(INFO)
    found = guarded(PROMPT, registry)
    (new,) = set(found) - set(PROMPT)
    assert found[new]["inputs"]["model"] == ["1", 0] and found["3"]["inputs"]["model"] == [new, 0]
    assert registry.samples("KSampler") and not registry.samples("Loader")


def test_advice_for_one_run_that_keeps_the_picture_is_applied_and_no_other():
    edit = {"steps": [{"op": "set", "node": "3", "input": "steps", "value": 7}]}
    other = {"steps": [{"op": "set", "node": "gone", "input": "steps", "value": 9}]}
    advice = [{"text": "one", "edit": edit, "changes_picture": False},
              {"text": "two", "edit": other, "changes_picture": False},
              {"text": "three", "edit": edit, "changes_picture": True},
              {"text": "four", "edit": None, "changes_picture": False},
              {"text": "in 5 runs", "edit": edit, "changes_picture": False, "kind": "disk_cache"}]
    prompt, applied = advised(PROMPT, advice)
    assert prompt["3"]["inputs"]["steps"] == 7 and applied == ["one"]


def test_steps_are_cut_unless_samplers_share_them():
    assert fewer_steps(PROMPT)["3"]["inputs"]["steps"] == STEPS
    shared = {**PROMPT, "4": {"class_type": "KSamplerAdvanced",
                              "inputs": {"steps": 20, "start_at_step": 10}}}
    assert fewer_steps(shared) == shared


def test_a_sampler_of_one_step_takes_another_that_shows_what_is_streamed():
    turbo = {"3": {"class_type": "SDTurboScheduler", "inputs": {"steps": 1}}}
    assert fewer_steps(turbo)["3"]["inputs"]["steps"] == 2


@pytest.mark.parametrize("name, taken", [
    ("dpmpp_2m_sde_gpu", "euler"), ("dpmpp_sde", "heun"), ("dpmpp_2m", "dpmpp_2m"),
    ("exp_heun_2_x0_sde", "heun"), ("sa_solver", "euler"), ("er_sde", "er_sde"),
])
def test_a_sampler_that_needs_real_values_is_replaced_by_one_with_as_many_calls(name, taken):
    prompt = {"3": {"class_type": "KSampler", "inputs": {"sampler_name": name, "model": ["1", 0]}}}
    assert without_noise_trees(prompt)["3"]["inputs"]["sampler_name"] == taken
    assert prompt["3"]["inputs"]["sampler_name"] == name


def test_a_file_of_the_users_comes_before_a_published_one_and_the_kinds_are_told(
    tmp_path, monkeypatch,
):
    from devtools.sparse_files import write_sparse

    content = SparseFile({"w": Weight("F16", (2, 2))})
    write_sparse(tmp_path / "checkpoints" / "mine" / "sd_xl_base_1.0.safetensors", content)
    (tmp_path / "checkpoints" / "old.ckpt").write_bytes(b"pickle")
    monkeypatch.setattr(public_models, "sparse_files",
                        lambda places, ask: dict.fromkeys(places, content))
    data = {"nodes": [{"widgets_values": ["mine/sd_xl_base_1.0.safetensors", "old.ckpt",
                                          "ae.safetensors", "nowhere.safetensors", "a.txt"]}]}
    found = fit_files.find_models(data, fit_files.index([tmp_path]), list)
    assert found.origin == {"checkpoints/mine/sd_xl_base_1.0.safetensors": "header of the file",
                            "vae/ae.safetensors": "published sizes"}
    assert (found.unreadable, found.unknown) == (["old.ckpt"], ["nowhere.safetensors"])


def test_layers_without_weights_name_no_shapes():
    file = Path(fit_files.__file__).with_name("architectures.py")
    built = runpy.run_path(str(file))["_built"]
    layer = torch.nn.Linear(2, 3, device="meta")
    assert built(layer) == {"weight": (3, 2), "bias": (3,)}
    layer.weight = None
    with pytest.raises(RuntimeError, match="without weights"):
        built(torch.nn.Sequential(layer))


@pytest.mark.parametrize("name, words", [
    ("old.ckpt", "Node 1 .*cannot be read dry"), ("gone.safetensors", "Node 1 .*--models"),
])
def test_a_file_that_cannot_be_had_dry_is_named_with_its_node(name, words):
    found = fit_files.Found(unreadable=["old.ckpt"], unknown=["gone.safetensors"])
    with pytest.raises(DevError, match=words):
        fit_files.check_named({"1": {"class_type": "Loader", "inputs": {"name": name}}}, found)


def test_pictures_that_are_not_there_are_made_and_the_users_are_copied(tmp_path):
    from PIL import Image

    own, target = tmp_path / "input", tmp_path / "made"
    own.mkdir()
    Image.new("RGB", (33, 44)).save(own / "mine.png")
    data = {"1": {"inputs": {"image": "mine.png"}}, "2": {"inputs": {"image": "other.jpg"}},
            "3": {"inputs": {"image": "../../escape.png"}}}
    assert fit_files.add_pictures(data, own, target) == ["other.jpg"]
    assert Image.open(target / "mine.png").size == (33, 44)
    assert not (tmp_path.parent / "escape.png").exists()


@pytest.mark.parametrize("text", ["", "8,", "big", "0,8", "-6", "nan", "inf", "8,1e30"])
def test_cards_that_are_no_sizes_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="GiB with commas"):
        parse_cards(text)


@pytest.mark.parametrize("kind, text", [
    (capability, "new"), (capability, "8"), (capability, "-8.9"), (amount, "-1"), (amount, "nan"),
    (amount, "inf"), (amount, "much"),
])
def test_settings_that_no_card_has_are_refused(kind, text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number"):
        kind(text)


def test_the_report_has_a_line_a_card_and_every_addition_on_a_line_of_its_own():
    nodes = [sampler(1.0, 1.0)]
    trials = [Trial(8, PLAIN, Verdict("streams", 500.0), 4000, 1, nodes),
              Trial(8, GUARDED, Verdict("resident"), 4000, 1, nodes),
              Trial(8, ADVISED, Verdict("resident"), 4000, 1, nodes, ("Use less.",)),
              Trial(6, PLAIN, Verdict("stopped", None, "Face (7)", "no face"), 4000, 1, nodes)]
    facts = {"workflow": "w.json", "comfyui": "0.3.75", "capability": "8.9", "context_mib": 400,
             "made_pictures": [], "side": 1024, "files": {
                 "vae/a.safetensors": {"mib": 160, "from": "published sizes"}}}
    text = report(trials, facts)
    assert "8 GiB  streams 500 MiB a step  resident  resident" in text
    assert "Face (7) needs what a dry run does not have" in text and "8 GiB: Use less." in text
    for line in ("tensors and weights", "layout copies", "CUDA context", "kept by the allocator"):
        assert line in text
    assert json.dumps([trial.as_json() for trial in trials])


def test_a_dry_run_reads_no_weight_and_begins_without_lessons(monkeypatch, tmp_path):
    from headroom.base import file_identity
    from headroom.cast import tensor
    from headroom.guard import lessons

    monkeypatch.setattr(tensor, "is_exact", tensor.is_exact)
    monkeypatch.setattr(file_identity, "content_hash", file_identity.content_hash)
    lessons.learn("a call", 4, 100, 50)
    dry = SimpleNamespace(**runpy.run_path(DRY_RUN))  # the pack around it needs a ComfyUI
    dry.look_at_no_weight()
    dry.forget_lessons()
    assert tensor.is_exact(torch.float32, torch.bfloat16)
    assert file_identity.content_hash(tmp_path / "not there", 7)
    assert lessons.recall("a call", 100) is None


@pytest.mark.parametrize(("flags", "expected"), [
    ('"--disable-dynamic-vram" "--disable-pinned-memory"', ("--disable-pinned-memory",)),
    ('"--disable-pinned-memory"', ()),
])
def test_no_weight_is_read_into_pinned_ram_where_dynamic_vram_would(tmp_path, flags, expected):
    (tmp_path / "comfy").mkdir()
    (tmp_path / "comfy" / "cli_args.py").write_text(flags)
    assert unpinned(tmp_path) == expected

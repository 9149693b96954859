"""The estimate for a workflow before it runs, from headers of its files and earlier runs."""

import copy
import json
import os
import struct
from types import SimpleNamespace

import pytest
from support.advice import PROMPT, Registry
from support.recorder import Records

from headroom.advise.advisor import Advisor
from headroom.advise.estimate import MOST_FILES, MOST_NODES, estimate
from headroom.base.ceiling import Ceiling
from headroom.base.graph import Graph
from headroom.base.weights_file import weights_of
from headroom.measure.snapshot import DeviceMemory

MIB = 1 << 20
SIZES = {"F16": 2, "F32": 4, "F8_E4M3": 1, "BOOL": 1}
CHECKPOINT = {"model.diffusion_model.w": ("F16", 1600), "cond_stage_model.w": ("F16", 240),
              "first_stage_model.w": ("F32", 320)}


def header(tensors):
    at, found = 0, {}
    for name, (dtype, mib) in tensors.items():
        found[name] = {"dtype": dtype, "shape": [mib * MIB // SIZES[dtype]],
                       "data_offsets": [at, at + mib * MIB]}
        at += mib * MIB
    return found, at


def write(path, tensors):
    """A file with this header and a hole of its size behind it."""
    found, size = header(tensors)
    data = json.dumps(found).encode()
    path.write_bytes(struct.pack("<Q", len(data)) + data)
    with path.open("r+b") as file:
        file.truncate(8 + len(data) + size)
    return path


class Folder(Registry):
    """A registry with one models folder; `asked` are the names that were looked for there."""

    def __init__(self, folder):
        self.folder, self.asked = folder, []

    def files_named(self, name):
        self.asked.append(name)
        return [path for path in [self.folder / name] if path.is_file()]


@pytest.fixture
def registry(tmp_path):
    write(tmp_path / "a.safetensors", CHECKPOINT)
    return Folder(tmp_path)


def card(mib, other_mib=0, **more):
    held = (mib - other_mib) * MIB
    return DeviceMemory("cuda:0", "GPU", mib * MIB, held, 0, 0, None, **more)


def of(prompt, registry, device=None, like=None):
    return estimate(Graph(prompt, registry), like, device)


def naming(*files):
    return {**PROMPT, **{f"f{index}": {"class_type": "CheckpointLoaderSimple", "inputs": {
        "ckpt_name": name}} for index, name in enumerate(files)},
        "out": {"class_type": "SaveImage", "inputs": {
            f"x{index}": [f"f{index}", 0] for index in range(len(files))}}}


def texts(found):
    return "\n".join(line["text"] for line in found["lines"])


def test_a_workflow_needs_at_least_its_largest_part_and_at_most_all_parts(registry):
    low, high = of(PROMPT, registry)["needs_mib"]
    assert 1600 < low < 1600 + 512
    assert 1600 + 240 + 320 < high < 1600 + 240 + 320 + 1024


@pytest.mark.parametrize(("mib", "other_mib", "verdict"), [
    (8192, 0, "fits"), (8192, 6000, "tight"), (2300, 0, "tight"), (1024, 0, "streams")])
def test_the_verdict_is_about_what_other_programs_leave_of_this_card(
    registry, mib, other_mib, verdict
):
    assert of(PROMPT, registry, card(mib, other_mib))["verdict"] == verdict


@pytest.mark.parametrize(("flags", "has_dynamic", "room_mib"), [
    ({"reserve_vram": 6.0}, False, 24576 - 1024 - 6144),
    ({"reserve_vram": 6.0}, True, 24576 - 6144),  # others may use it
    ({"vram_headroom": 6.0}, True, 24576 - 1024 - 6144), ({"vram_headroom": 6.0}, False, 23552),
])
def test_what_a_flag_leaves_free_is_no_room(registry, monkeypatch, flags, has_dynamic, room_mib):
    for name, value in {"_flags": lambda: SimpleNamespace(**flags), "_control": SimpleNamespace,
                        "has_dynamic_vram": lambda: has_dynamic, "_wishes": {}}.items():
        monkeypatch.setattr(f"headroom.host.reserve.{name}", value)
    assert of(PROMPT, registry, card(24576, 1024))["room_mib"] == room_mib


def test_where_a_run_needed_all_that_it_took_the_need_is_one_figure(registry):
    like = "run", {"smallest_mib": [3000.0, 3001.0], "at_least": False}
    verdict = texts(of(PROMPT, registry, card(8192), like)).split("\n")[0]
    assert verdict == "It fits: it needs 3,001.0 MiB, and 7,946.2 MiB are available."


@pytest.mark.parametrize(("mib", "verdict"), [(3000, "fails"), (8192, "fits")])
def test_a_run_that_did_not_fit_is_told_where_there_is_no_more_room_now(registry, mib, verdict):
    like = "run", {"smallest_mib": [3000.0, 3000.0], "at_least": True}
    told = of(PROMPT, registry, card(mib), like)
    assert told["verdict"] == verdict
    assert "needed more than 3,000.0 MiB here" in texts(told)


def test_a_limit_of_this_server_is_all_the_room_that_there_is(registry):
    limit = Ceiling(2048 * MIB, 2048 * MIB, 2048 * MIB)
    told = of(PROMPT, registry, card(24576, ceiling=limit))
    assert (told["verdict"], told["room_mib"]) == ("tight", 2048)


def test_without_a_gpu_there_is_a_need_and_no_verdict(registry):
    assert of(PROMPT, registry)["verdict"] == "unknown"


def test_a_larger_picture_needs_more_and_more_frames_do_too(registry):
    def high(**inputs):
        latent = {**PROMPT["5"], "inputs": {**PROMPT["5"]["inputs"], **inputs}}
        return of({**PROMPT, "5": latent}, registry)["needs_mib"][1]

    assert high() < high(width=1024, height=1024) < high(width=1024, height=1024, batch_size=2)
    assert high(width=832, height=480) < high(width=832, height=480, length=81)


def test_frames_that_a_node_holds_are_counted_and_computed_ones_are_assumed_and_told(registry):
    def of_length(**node):
        latent = {**PROMPT["5"], "inputs": {**PROMPT["5"]["inputs"], "length": ["n", 0]}}
        return of({**PROMPT, "5": latent, "n": node}, registry)

    held = of_length(class_type="PrimitiveInt", inputs={"value": 33})
    assert held["size"]["frames"] == 33 and held["size"]["frames_said"]
    computed = of_length(class_type="ComfyMathExpression", inputs={"expression": "a * b"})
    assert computed["size"]["frames"] == 121 and not computed["size"]["frames_said"]
    assert "Another node computes the size or the number of frames" in texts(computed)


def test_frames_of_a_video_are_counted_where_another_node_computes_its_width_and_height(registry):
    sides = {"width": ["n", 0], "height": ["n", 1]}
    video = {"class_type": "EmptyLTXVLatentVideo", "inputs": {**sides, "length": 97}}
    prompt = {**PROMPT, "5": video, "n": {"class_type": "GetImageSize", "inputs": {}}}
    found = of(prompt, registry)
    assert found["size"]["frames"] == 97 and not found["size"]["is_said"]
    assert "computes the size or the number of frames: for 97 frames" in texts(found)
    image = {"class_type": "EmptyImage", "inputs": {"width": 640, "height": 384}}
    said = of({**prompt, "n": {**image}}, registry)  # the node that they come from says it
    assert "For 97 frames of 640 × 384" in texts(said)
    del video["inputs"]["length"]
    assert "No node says the size of a picture: 4,356.0 MiB are assumed" in texts(
        of(prompt, registry))


def test_no_size_of_a_picture_is_claimed_where_no_node_says_one_as_for_a_song(registry):
    song = {"class_type": "EmptyAceStep1.5LatentAudio", "inputs": {"seconds": 120.0}}
    told = texts(of({**PROMPT, "5": song}, registry))
    assert "No node says the size of a picture" in told and "1024" not in told


def test_a_lora_and_a_node_that_no_output_needs_are_not_needed_at_once(registry, tmp_path):
    before = of(PROMPT, registry)["needs_mib"]
    write(tmp_path / "l.safetensors", {"lora": ("F16", 3000)})
    lora = {"class_type": "HeadroomCastBF16", "inputs": {"model": ["4", 0], "n": "l.safetensors"}}
    unused = of({**PROMPT, "l": lora}, registry)["needs_mib"]
    sampler = {**PROMPT["3"], "inputs": {**PROMPT["3"]["inputs"], "model": ["l", 0]}}
    used = of({**PROMPT, "l": lora, "3": sampler}, registry)["needs_mib"]
    assert unused == before
    # A node that takes a model's wire works its file into that model.
    assert used[1] == pytest.approx(before[1] + 3000)


def test_bytes_of_every_dtype_are_counted_as_the_library_reads_them(tmp_path):
    path = write(tmp_path / "m.safetensors", {
        "vae.a": ("F8_E4M3", 3), "vae.b": ("BOOL", 5), "other": ("F32", 8)})
    found = weights_of(path)
    assert found.bytes == path.stat().st_size and not found.is_broken
    assert found.parts == {"VAE": 8 * MIB, "": 4 * MIB}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize(("dtype", "loaded"), [("F16", 1600), ("F8_E4M3", 3200), ("F32", 800)])
def test_a_loader_that_casts_to_8_bit_halves_only_what_is_wider(registry, tmp_path, dtype, loaded):
    write(tmp_path / "b.safetensors", {"w": (dtype, 3200)})
    loader = {"class_type": "UNETLoader",
              "inputs": {"unet_name": "b.safetensors", "weight_dtype": "fp8_e4m3fn"}}
    prompt = {"1": loader, "2": {"class_type": "SaveImage", "inputs": {"x": ["1", 0]}}}
    plain = {**prompt, "1": {**loader, "inputs": {"unet_name": "b.safetensors"}}}
    low, unchanged = (of(one, registry)["needs_mib"][0] for one in (prompt, plain))
    as_16_bit = 1600 if dtype == "F32" else 3200
    assert unchanged - low == as_16_bit - loaded


def test_nobody_waits_for_a_pipe_with_the_name_of_a_model_file(tmp_path):
    os.mkfifo(tmp_path / "m.safetensors")
    assert weights_of(tmp_path / "m.safetensors") is None


BROKEN = {
    "empty": b"", "short": b"1234", "longer than the file": struct.pack("<Q", 1 << 60) + b"{}",
    "no JSON": struct.pack("<Q", 4) + b"nope", "a list": struct.pack("<Q", 2) + b"[]",
    "deep": struct.pack("<Q", 200_000) + b"[" * 200_000,
    "outside": struct.pack("<Q", 60) + json.dumps(
        {"w": {"dtype": "F16", "data_offsets": [0, 999]}}).encode().ljust(60),
    "negative": struct.pack("<Q", 60) + json.dumps(
        {"w": {"dtype": "F16", "data_offsets": [-9, 0]}}).encode().ljust(60),
    "a dtype that is none": struct.pack("<Q", 60) + json.dumps(
        {"w": {"dtype": {}, "data_offsets": [0, 0]}}).encode().ljust(60),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_header_is_named_and_its_file_counts_by_its_size(registry, tmp_path, content):
    (tmp_path / "b.safetensors").write_bytes(content)
    assert weights_of(tmp_path / "b.safetensors").bytes == len(content)
    assert "headers are broken: b.safetensors" in texts(of(naming("b.safetensors"), registry))


@pytest.mark.parametrize("name", [
    "/etc/secret.safetensors", "../secret.safetensors", "x/../../secret.safetensors",
    "C:\\secret.safetensors", "c:secret.ckpt", "\\\\host\\share\\s.gguf", "..\\secret.pt"])
def test_a_file_outside_of_the_models_folders_is_named_and_not_looked_for(registry, name):
    found = of(naming(name), registry)
    assert registry.asked == ["a.safetensors"]
    assert found["not_counted"] == [name] and "no models folder has them" in texts(found)


def test_a_file_that_is_nowhere_is_named_and_nothing_is_said_to_fit(registry):
    found = of(naming("gone.safetensors"), registry, card(8192))
    assert "no models folder has them: gone.safetensors" in texts(found)
    assert found["verdict"] == "unknown"
    assert of(naming("gone.safetensors"), registry, card(1024))["verdict"] == "streams"


def test_a_workflow_that_names_no_model_file_is_not_said_to_fit(registry):
    found = of({"9": PROMPT["9"]}, registry, card(8192))
    assert found["verdict"] == "unknown" and "No node names a model file" in texts(found)


@pytest.mark.parametrize("prompt", [
    {str(at): PROMPT["5"] for at in range(MOST_NODES + 1)},
    naming(*(f"{at}.safetensors" for at in range(MOST_FILES + 1)))], ids=["nodes", "files"])
def test_a_workflow_larger_than_any_real_one_is_refused_in_a_sentence(registry, prompt):
    with pytest.raises(ValueError, match="Expected a workflow (of|that names) at most"):
        of(prompt, registry)


def advisor(registry, prompt):
    """With a record of one run on a card of 8 GiB that took 3 to 4 of them."""
    made = Advisor(Records(SimpleNamespace(prompt_id="first")), lambda _: prompt, registry)
    made.recorder.look = lambda *_: (0.0, "success")
    made._fits["first", 0.0] = {"smallest_mib": [3000.0, 4000.0], "at_least": False}
    return made


def changed(node_id, **inputs):
    prompt = copy.deepcopy(PROMPT)
    prompt[node_id]["inputs"].update(inputs)
    return prompt


@pytest.mark.parametrize("prompt", [PROMPT, changed("6", text="a dog"), changed("5", width=64.0)])
def test_a_run_of_the_same_nodes_files_and_sizes_is_what_is_told(registry, prompt):
    found = advisor(registry, PROMPT).estimate(prompt)
    assert (found["kind"], found["run"], found["needs_mib"]) == ("measured", "first", [3000, 4000])


@pytest.mark.parametrize("prompt", [
    changed("5", width=128), changed("4", ckpt_name="b.safetensors"), {"9": PROMPT["9"]}])
def test_a_run_of_another_size_or_file_is_not(registry, prompt):
    assert advisor(registry, PROMPT).estimate(prompt)["kind"] == "headers"


def test_values_that_are_nested_without_end_are_refused_in_a_sentence(registry):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        advisor(registry, PROMPT).estimate(changed("5", width=deep))

"""Conditioning saved under a name: it is loaded unchanged, names its encoder, and is checked."""

import os

import pytest
import torch
from safetensors import safe_open
from support.registries import FilesAndClasses

from headroom.base.node_types import NodeType
from headroom.base.stored_value import to_bytes
from headroom.encode import named_conditioning, named_nodes
from headroom.encode.encoders import encoders_above, is_made_of, loaders_in, name_of
from headroom.encode.named_conditioning import (
    MAX_FILE_BYTES,
    NotUsable,
    file_of,
    load,
    names_in,
    save,
)

TYPES = {
    "CLIPLoader": NodeType({"clip_name": "COMBO"}, ("CLIP",)),
    "CheckpointLoaderSimple": NodeType({"ckpt_name": "COMBO"}, ("MODEL", "CLIP", "VAE")),
    "UNETLoader": NodeType({"unet_name": "COMBO"}, ("MODEL",)),
    "LoraLoader": NodeType({"clip": "CLIP", "lora_name": "COMBO"}, ("MODEL", "CLIP")),
    "CLIPTextEncode": NodeType({"clip": "CLIP", "text": "STRING"}, ("CONDITIONING",)),
    "HeadroomSaveConditioning": NodeType({"conditioning": "CONDITIONING"}, ("CONDITIONING",)),
}


@pytest.fixture
def host(tmp_path):
    for name in ("t5.safetensors", "style.safetensors", "unet.safetensors"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    return FilesAndClasses(tmp_path, TYPES)


def prompt(clip="t5.safetensors"):
    return {
        "1": {"class_type": "CLIPLoader", "inputs": {"clip_name": clip, "type": "flux"}},
        "2": {"class_type": "LoraLoader", "inputs": {
            "clip": ["1", 0], "lora_name": "style.safetensors", "strength_clip": 0.5}},
        "3": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["2", 1], "text": "a cat"}},
        "4": {"class_type": "HeadroomSaveConditioning", "inputs": {"conditioning": ["3", 0]}},
        "5": {"class_type": "UNETLoader", "inputs": {"unet_name": "unet.safetensors"}},
    }


def conditioning():
    return [[torch.arange(6.0).reshape(1, 2, 3).to(torch.bfloat16), {"pooled_output": None}]]


def encoders(host):
    return encoders_above(prompt(), "4", host)


def test_a_saved_conditioning_is_loaded_bit_by_bit_with_its_encoder(tmp_path, host):
    file = file_of(tmp_path / "named", "castle")
    save(conditioning(), file, encoders(host))
    loaded = load(file)
    assert torch.equal(loaded.conditioning[0][0], conditioning()[0][0])
    assert loaded.encoders == encoders(host)
    assert names_in(tmp_path / "named") == ["castle"]
    with safe_open(str(file), "pt") as opened:  # any tool can read who made it
        assert "t5.safetensors" in opened.metadata()["headroom"]


def test_the_encoder_is_its_loader_and_the_loras_on_it(host):
    loader, lora = encoders(host)
    assert (loader["class_type"], lora["class_type"]) == ("CLIPLoader", "LoraLoader")
    assert [file["name"] for file in loader["files"]] == ["t5.safetensors"]
    assert name_of([loader, lora]) == "t5.safetensors, style.safetensors"
    assert name_of([]) == "an encoder that is not known"


def test_names_that_a_foreign_file_tells_are_one_short_line_without_codes_for_a_terminal():
    files = [{"name": "t5\n[INFO] all is well\x1b[2J" + "x" * 10**6, "size": 1, "content": ""}]
    told = name_of([{"class_type": "CLIPLoader", "files": files}])
    assert told.startswith("t5?[INFO] all is well?[2Jx") and len(told) == 500


def test_the_same_file_under_another_name_is_the_same_encoder(host):
    (loader, _), [present] = encoders(host), loaders_in(prompt(), host)
    assert is_made_of(loader, present)
    copy = host.folder / "renamed.safetensors"
    copy.write_bytes(present[0].read_bytes())
    assert is_made_of(loader, [copy])
    copy.write_bytes(present[0].read_bytes()[:-1] + b"!")
    assert not is_made_of(loader, [copy])


def test_a_workflow_without_a_text_encoder_has_none_to_compare(host):
    assert loaders_in({"5": prompt()["5"], "bad": None, "worse": {}}, host) == []


@pytest.mark.parametrize("name", [
    "", "  ", "..", ".hidden", "a/b", "a\\b", "../up", "/etc/passwd", "C:x", "a\0b", "a\nb",
    "x" * 121, None, 5, ["a"], "nul?", "star*", ".safetensors", "城" * 81, "\ud800", "\udcff",
    "half \ud83d", "a\x7f",
])
def test_a_name_that_cannot_be_a_file_name_is_refused_with_one_sentence(tmp_path, name):
    with pytest.raises(NotUsable, match="Conditioning expect `name` to be a file name") as refused:
        file_of(tmp_path, name)
    assert len(str(refused.value)) < 200 and "\n" not in str(refused.value)


def test_the_suffix_may_be_written_or_not(tmp_path):
    assert file_of(tmp_path, " castle.safetensors ") == file_of(tmp_path, "castle")
    assert file_of(tmp_path, "城堡 2").name == "城堡 2.safetensors"


def test_only_names_that_can_be_loaded_are_listed_and_a_link_to_itself_hides_none(tmp_path):
    save(conditioning(), file_of(tmp_path, "castle"), [])
    for name in (b".hidden", b" space", b"twice.safetensors", b"n" * 121, b"not utf-8 \xff"):
        (tmp_path / os.fsdecode(name + b".safetensors")).write_bytes(b"")
    (tmp_path / "loop.safetensors").symlink_to("loop.safetensors")
    (tmp_path / "nowhere.safetensors").symlink_to("nothing")
    (tmp_path / "folder.safetensors").mkdir()
    assert names_in(tmp_path) == ["castle"]
    with pytest.raises(NotUsable):
        load(tmp_path / "loop.safetensors")


@pytest.mark.parametrize("value", [None, 5, "text", [], [[1, 2]], [[torch.ones(1)]], {}])
def test_a_value_that_is_no_conditioning_is_refused(tmp_path, value):
    with pytest.raises(NotUsable, match="expects a CONDITIONING on the input `conditioning`"):
        save(value, tmp_path / "a.safetensors", [])
    assert names_in(tmp_path) == []


def test_a_conditioning_with_live_objects_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(NotUsable, match="hooks"):
        save([[torch.ones(1), {"hooks": object()}]], tmp_path / "a.safetensors", [])
    assert list(tmp_path.iterdir()) == []


def test_what_is_too_large_to_be_loaded_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(named_conditioning, "MAX_FILE_BYTES", 1 << 20)
    with pytest.raises(NotUsable, match="it has more than 1.0 MiB"):
        save([[torch.zeros(1 << 20), {}]], tmp_path / "large.safetensors", [])
    assert not list(tmp_path.iterdir())


def test_a_disk_that_refuses_is_one_sentence_and_the_old_file_stays(tmp_path, monkeypatch):
    file = tmp_path / "a.safetensors"
    save(conditioning(), file, [])

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(file), "write_bytes", full)
    with pytest.raises(NotUsable, match="No space left on device"):
        save(conditioning(), file, [])
    assert load(file).encoders == [] and [path.name for path in tmp_path.iterdir()] == [file.name]


def stored(value, key="named conditioning"):
    return to_bytes(value, key)


@pytest.mark.parametrize("content", [
    b"", b"PK\x03\x04", b"[" * 10_000, stored(conditioning()), stored({"conditioning": 3}),
    stored({"conditioning": [[1, 2]], "encoders": []}),
    stored({"conditioning": conditioning(), "encoders": []}, key="another kind"),
])
def test_a_file_that_is_not_ours_is_one_sentence(tmp_path, content):
    file = tmp_path / "a.safetensors"
    file.write_bytes(content)
    with pytest.raises(NotUsable, match="expects a file that Save Conditioning wrote"):
        load(file)


def test_a_missing_file_and_a_pipe_are_one_sentence_each(tmp_path):
    with pytest.raises(NotUsable, match="but there is none"):
        load(tmp_path / "gone.safetensors")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.safetensors")
        with pytest.raises(NotUsable, match="damaged or another one"):
            load(tmp_path / "pipe.safetensors")
        assert names_in(tmp_path) == []


def test_the_fingerprint_of_a_file_that_is_too_large_to_be_loaded_does_not_read_it(
    tmp_path, monkeypatch
):
    with (tmp_path / "huge.safetensors").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    monkeypatch.setattr(named_nodes, "_folder", lambda: tmp_path)
    monkeypatch.setattr(named_nodes, "identity_of", lambda path: pytest.fail("it was read"))
    assert "damaged or another one" in named_nodes.fingerprint("huge")

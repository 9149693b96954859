"""Which files `dev.py fit` finds for a workflow, and what it does about those it does not."""

import runpy
from pathlib import Path

import pytest
import torch

from tools import fit_files, fit_inputs, fit_ready, public_models
from tools.errors import DevError
from tools.sparse_files import SparseFile, Weight, write_sparse


def test_a_file_of_the_users_comes_before_a_published_one_and_the_kinds_are_told(
    tmp_path, monkeypatch,
):
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


def test_a_fine_tune_is_marked_as_one_and_each_is_a_file_that_is_known():
    told = public_models.origin("diffusion_models/capybara_v0.1.safetensors")
    assert told == "sizes of HunyuanVideo 1.5, from which it was trained"
    assert all(public_models.known(f"{name}.safetensors") for name in public_models.FINE_TUNED)


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
            "3": {"inputs": {"image": "../../escape.png"}},
            "4": {"inputs": {"mask": "painter/drawn.png [temp]"}}}
    assert fit_inputs.add_inputs(data, own, target) == ["other.jpg", "painter/drawn.png [temp]"]
    assert fit_ready.from_input(data)["4"]["inputs"] == {"mask": "painter/drawn.png"}
    assert (target / "painter" / "drawn.png").is_file()
    assert Image.open(target / "mine.png").size == (33, 44)
    assert not (tmp_path.parent / "escape.png").exists()


def test_a_video_and_a_sound_that_are_not_there_are_made_and_can_be_read(tmp_path):
    import av

    data = {"1": {"inputs": {"file": "walk.mov", "audio": "song.mp3"}}}
    assert fit_inputs.add_inputs(data, None, tmp_path) == ["walk.mov", "song.mp3"]
    with av.open(tmp_path / "walk.mov") as file:
        assert sum(1 for _ in file.decode(video=0)) == fit_inputs.FRAMES
        assert (file.streams.video[0].width, len(file.streams.audio)) == (fit_inputs.WIDTH, 1)
    with av.open(tmp_path / "song.mp3") as file:
        assert file.duration == 1e6 * fit_inputs.SOUND_S

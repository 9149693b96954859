"""By which model previews are drawn, and whether a model's weights are read from disk."""

from types import SimpleNamespace

import pytest
from support.comfyui import on_comfyui
from support.hosts import Patcher

from headroom.actions import offload
from headroom.host.types import Previews


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A ComfyUI with two decoders, a loaded SDXL and a text encoder without a latent format."""
    for name, size in (("taesd_decoder.pth", 5), ("taesdxl_decoder.pth", 7)):
        (tmp_path / name).write_bytes(bytes(size))
    sdxl = SimpleNamespace(latent_format=SimpleNamespace(taesd_decoder_name="taesdxl_decoder"))
    args = SimpleNamespace(preview_method=SimpleNamespace(value="taesd"))
    loaded = [SimpleNamespace(model=Patcher(one)) for one in (sdxl, SimpleNamespace())]
    flags = on_comfyui(
        monkeypatch, "flags", comfy__cli_args={"args": args},
        comfy__model_management={"current_loaded_models": loaded}, folder_paths={
            "get_filename_list": lambda _: sorted(path.name for path in tmp_path.iterdir()),
            "get_full_path": lambda _, name: str(tmp_path / name)},
        ours__core={"is_dynamic": lambda patcher: patcher.dynamic})
    return SimpleNamespace(args=args, loaded=loaded, folder=tmp_path, previews=flags.previews,
                           reads_from_disk=flags.reads_from_disk)


def test_the_decoder_of_the_loaded_model_is_the_one_that_draws(host):
    assert host.previews() == Previews("taesd", 7, 768)
    host.loaded[0].model.model.latent_format.taesd_decoder_name = "taehv"  # of a model for video
    (host.folder / "taehv.safetensors").write_bytes(bytes(9))
    assert host.previews() == Previews("taesd", 9)


def test_without_its_file_no_model_draws_and_without_a_model_nobody_can_tell(host):
    (host.folder / "taesdxl_decoder.pth").unlink()
    assert host.previews() == Previews("taesd", 0, 768)
    host.loaded.clear()
    assert host.previews() == Previews("taesd", None)


def test_other_ways_need_no_model(host):
    host.args.preview_method = "latent2rgb"
    assert host.previews() == Previews("latent2rgb", 0)
    del host.args.preview_method
    assert host.previews() is None


@pytest.mark.parametrize(("args", "patcher", "expected"), [
    ({}, {}, False),  # 0.3.75
    ({"fast_disk": True}, {}, True),  # 0.33.0
    ({"fast_disk": False}, {}, False),
    ({"fast_disk": False, "disable_fast_disk": False}, {"fast_disk": True}, True),  # newer
    ({"fast_disk": False, "disable_fast_disk": True}, {"fast_disk": True}, False),
    ({"fast_disk": True}, {"dynamic": False}, False),  # a classic model has its weights in RAM
])
def test_a_model_is_read_from_disk_where_comfyui_says_so(host, args, patcher, expected):
    vars(host.args).update(args)
    model = Patcher(dynamic=True)
    vars(model).update(patcher)
    assert host.reads_from_disk(model) is expected


def test_the_report_says_whether_weights_went_to_ram_or_disk():
    assert "for RAM" in offload._headline(1 << 20, "CPU", "this model", False)
    assert "back from disk" in offload._headline(1 << 20, "CPU", "this model", True)
    assert "for disk" in offload._headline(1 << 20, "disk", "this model", True)

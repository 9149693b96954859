"""By which model ComfyUI's samplers draw previews: the file that ComfyUI itself would take."""

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

from headroom.host.types import Previews


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A ComfyUI with two decoders, a loaded SDXL and a text encoder without a latent format."""
    for name, size in (("taesd_decoder.pth", 5), ("taesdxl_decoder.pth", 7)):
        (tmp_path / name).write_bytes(bytes(size))
    sdxl = SimpleNamespace(latent_format=SimpleNamespace(taesd_decoder_name="taesdxl_decoder"))
    args, loaded = SimpleNamespace(preview_method=SimpleNamespace(value="taesd")), [
        SimpleNamespace(model=SimpleNamespace(model=one)) for one in (sdxl, SimpleNamespace())]
    fakes = {"comfy": {}, "comfy.cli_args": {"args": args}, "folder_paths": {
        "get_filename_list": lambda _: sorted(path.name for path in tmp_path.iterdir()),
        "get_full_path": lambda _, name: str(tmp_path / name),
    }, "comfy.model_management": {"current_loaded_models": loaded}}
    modules = {name: ModuleType(name) for name in fakes}
    for name, module in modules.items():
        vars(module).update(fakes[name])
        monkeypatch.setitem(sys.modules, name, module)
    modules["comfy"].cli_args = modules["comfy.cli_args"]
    modules["comfy"].model_management = modules["comfy.model_management"]
    sys.modules.pop("headroom.host.flags", None)
    yield SimpleNamespace(args=args, loaded=loaded, folder=tmp_path, previews=importlib
                          .import_module("headroom.host.flags").previews)
    sys.modules.pop("headroom.host.flags")


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

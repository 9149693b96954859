"""Loaded models: names that last, kinds that a user knows, and bytes that are read at low cost."""

import gc
from pathlib import Path

import pytest
import torch
from support.hosts import Host, Patcher
from support.quantised import quantised

from headroom.models import loaded
from headroom.models.loaded import (
    class_name,
    file_name,
    float32_bytes,
    kind_of,
    loaded_models,
    name_of,
)


def made(class_name, module, *bases):
    return type(class_name, bases or (torch.nn.Module,), {"__module__": module})()


@pytest.mark.parametrize(("class_name", "module", "kind"), [
    ("SD1ClipModel", "comfy.sd1_clip", "text encoder"),
    ("FluxClipModel_", "comfy.text_encoders.flux", "text encoder"),
    ("AutoencoderKL", "comfy.ldm.models.autoencoder", "VAE"),
    ("WanVAE", "comfy.ldm.wan.vae", "VAE"),
    ("TAESD", "comfy.taesd.taesd", "VAE"),
    ("ControlNet", "comfy.cldm.cldm", "ControlNet"),
    ("CLIPVisionModelProjection", "comfy.clip_model", "CLIP vision"),
    ("RRDBNet", "spandrel.architectures.ESRGAN", "upscale model"),
    ("Net", "custom_nodes.something", "model"),
    ("Linear", "torch.nn.modules.linear", "model"),
])
def test_a_model_is_called_what_a_user_calls_it(class_name, module, kind):
    assert kind_of(made(class_name, module)) == kind


def test_every_diffusion_model_is_one_whatever_its_class():
    base = type("BaseModel", (torch.nn.Module,), {"__module__": "comfy.model_base"})
    assert kind_of(made("SDXL", "comfy.model_base", base)) == "diffusion model"
    assert kind_of(made("VAEControl", "some.vae", base)) == "diffusion model"


@pytest.mark.parametrize(("files", "shown"), [
    (["/models/checkpoints/v1-5.safetensors"], "v1-5.safetensors"),
    (["/m/clip_l.pt", "/m/t5xxl.pt"], "clip_l.pt + t5xxl.pt"),
    ([], None),
])
def test_a_model_is_named_by_the_files_it_was_loaded_from(files, shown):
    assert file_name(Path(file) for file in files) == shown


def test_a_diffusion_model_without_a_file_name_is_named_by_its_configuration():
    base = type("BaseModel", (torch.nn.Module,), {"__module__": "comfy.model_base"})
    model = base()
    assert class_name(model) == "BaseModel"
    model.model_config = type("SD15", (), {})()
    assert class_name(model) == "SD15"
    assert class_name(made("AutoencoderKL", "comfy.ldm.models.autoencoder")) == "AutoencoderKL"


def test_a_name_lasts_and_is_never_given_again():
    first = torch.nn.Module()
    given = name_of(first)
    assert name_of(first) == given
    del first
    gc.collect()
    assert name_of(torch.nn.Module()) != given


def test_each_model_is_described_once(monkeypatch):
    patcher = Patcher(torch.nn.Linear(8, 8), "cuda:0", size=4000, loaded=1000)
    host = Host(patcher, None)
    monkeypatch.setattr(loaded, "current_host", lambda: host)
    (one,) = loaded_models()
    assert loaded_models() == [one] and patcher.sized == 1
    assert (one.device, one.bytes, one.model.total_bytes) == ("cuda:0", 1000, 4000)
    assert one.model.float32_bytes == 4 * 72 and not one.model.stays
    host.entries = ()
    assert loaded_models() == []


def test_a_model_that_unloading_does_not_move_stays(monkeypatch):
    patcher = Patcher(torch.nn.Linear(8, 8), "cuda:0", loaded=1000)
    patcher.offload_device = patcher.load_device
    monkeypatch.setattr(loaded, "current_host", lambda: Host(patcher))
    assert loaded_models()[0].model.stays


def test_nothing_is_loaded_without_comfyui(monkeypatch):
    monkeypatch.setattr(loaded, "current_host", lambda: None)
    assert loaded_models() == []


def test_weights_count_in_the_dtype_that_goes_to_the_gpu():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4).to(torch.bfloat16))
    assert float32_bytes(model) == 4 * 20
    model[0].weight_comfy_model_dtype = torch.bfloat16
    assert float32_bytes(model) == 4 * 4


def test_a_quantised_weight_is_none_in_float32_whatever_dtype_it_tells():
    model = torch.nn.Linear(1024, 1024, bias=False)
    model.weight = torch.nn.Parameter(quantised(model.weight), requires_grad=False)
    assert model.weight.dtype == torch.float32 and float32_bytes(model) == 0

"""Loaded models have names that last, and kinds that a user knows."""

import gc
from pathlib import Path

import pytest
import torch

from headroom.models.loaded import class_name, file_name, kind_of, name_of


def made(class_name, module, *bases):
    return type(class_name, bases or (torch.nn.Module,), {"__module__": module})()


@pytest.mark.parametrize(
    ("class_name", "module", "kind"),
    [
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
    ],
)
def test_a_model_is_called_what_a_user_calls_it(class_name, module, kind):
    assert kind_of(made(class_name, module)) == kind


def test_every_diffusion_model_is_one_whatever_its_class():
    base = type("BaseModel", (torch.nn.Module,), {"__module__": "comfy.model_base"})
    assert kind_of(made("SDXL", "comfy.model_base", base)) == "diffusion model"
    assert kind_of(made("VAEControl", "some.vae", base)) == "diffusion model"


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        (["/models/checkpoints/v1-5.safetensors"], "v1-5.safetensors"),
        (["/m/clip_l.pt", "/m/t5xxl.pt"], "clip_l.pt + t5xxl.pt"),
        ([], None),
    ],
)
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

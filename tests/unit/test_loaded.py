"""Loaded models have names that last, and kinds that a user knows."""

import gc

import pytest
import torch

from headroom.models.loaded import Names, kind_of


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


def test_a_name_lasts_and_is_never_given_again():
    names = Names()
    first = torch.nn.Module()
    given = names.name(first)
    assert names.name(first) == given
    del first
    gc.collect()
    assert names.name(torch.nn.Module()) != given

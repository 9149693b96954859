"""Sweeps over a VAE, a text encoder and an upscale model."""

import json

import comfy.model_management as mm
import torch

from .sweep import FRESH, SWEEP, ProbeNode, Sweep, start


class OomSweepUpscale(ProbeNode):
    """The calls that ImageUpscaleWithModel makes of an upscale model."""

    INPUTS = {"guarded": ("UPSCALE_MODEL",), "plain": ("UPSCALE_MODEL",),
              "batch": ("INT", {"default": 1}), **SWEEP}

    def run(self, guarded, plain, batch, first, last, stride, times, kind):
        device = mm.get_torch_device()
        generator = torch.Generator().manual_seed(9)
        picture = torch.rand(batch, 3, 96, 96, generator=generator)

        def upscale(descriptor, arm):
            image = picture.to(device)
            arm()
            descriptor.to(device)
            result = descriptor(image).cpu()
            descriptor.to("cpu")
            return result

        reference = upscale(plain, lambda: None)
        sweep = Sweep(lambda arm: upscale(guarded, arm), {"times": times, "kind": kind})
        return {"ui": {"text": [json.dumps(sweep(reference, (first, last, stride)))]}}


class OomSweepDecode(ProbeNode):
    INPUTS = {"guarded": ("VAE",), "plain": ("VAE",), "latent": ("LATENT",),
              "encode": ("BOOLEAN", {"default": False}), **SWEEP}

    def run(self, guarded, plain, latent, encode, first, last, stride, times, kind):
        generator = torch.Generator().manual_seed(3)
        latents = torch.randn(latent["samples"].shape, generator=generator)
        reference = pixels = plain.decode(latents)
        if encode:
            reference = plain.encode(pixels)

        def run(arm):
            arm()
            return guarded.encode(pixels) if encode else guarded.decode(latents)

        answer = Sweep(run, {"times": times, "kind": kind})(reference, (first, last, stride))
        return {"ui": {"text": [json.dumps(answer)]}}


class OomSweepEncoder(ProbeNode):
    INPUTS, OPTIONAL = {"guarded": ("CLIP",), "plain": ("CLIP",), **SWEEP}, {"fresh": FRESH}

    def run(self, guarded, plain, first, last, stride, times, kind, fresh=False):
        def encode(clip):
            return clip.encode_from_tokens_scheduled(clip.tokenize("a red cube"))[0][0]

        def run(arm):
            start(fresh)
            arm()
            return encode(guarded)

        answer = Sweep(run, {"times": times, "kind": kind})(encode(plain), (first, last, stride))
        return {"ui": {"text": [json.dumps(answer)]}}

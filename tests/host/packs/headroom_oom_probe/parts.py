"""Sweeps over a VAE, a text encoder, a ControlNet and an upscale model."""

import json

import comfy.model_management as mm
import torch

from .sweep import FRESH, SWEEP, ProbeNode, Sweep, start


class OomSweepControl(ProbeNode):
    """Only the ControlNet is guarded; its forward alone is made to fail."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {
            "guarded": ("CONTROL_NET",), "plain": ("CONTROL_NET",), "model": ("MODEL",),
            "batch": ("INT", {"default": 1}), **SWEEP,
        }}

    def execute(self, guarded, plain, model, batch, first, last, stride, times, kind):
        device = mm.get_torch_device()
        generator = torch.Generator().manual_seed(9)
        picture = torch.rand(1, 3, 64, 64, generator=generator)
        x = torch.randn(2 * batch, 4, 8, 8, generator=generator).to(device)
        words = torch.randn(2 * batch, 77, 768, generator=generator).to(device)
        t = torch.full((2 * batch,), 5.0).to(device)

        def control(net, arm):
            own = net.copy().set_cond_hint(picture, 0.7, (0.0, 1.0))
            mm.load_models_gpu([model, *own.get_models()])
            own.pre_run(model.model, model.model.model_sampling.percent_to_sigma)
            arm()
            cond = {"c_crossattn": words}
            parts = own.get_control(x, t, cond, 2, {"cond_or_uncond": [0, 1]})
            own.cleanup()
            return torch.cat([tensor.cpu().flatten() for name in sorted(parts)
                              for tensor in parts[name] if tensor is not None])

        reference = control(plain, lambda: None)
        sweep = Sweep(lambda arm: control(guarded, arm), {"times": times, "kind": kind})
        return {"ui": {"text": [json.dumps(sweep(reference, (first, last, stride)))]}}


class OomSweepUpscale(ProbeNode):
    """The calls that ImageUpscaleWithModel makes of an upscale model."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"guarded": ("UPSCALE_MODEL",), "plain": ("UPSCALE_MODEL",),
                             "batch": ("INT", {"default": 1}), **SWEEP}}

    def execute(self, guarded, plain, batch, first, last, stride, times, kind):
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
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"guarded": ("VAE",), "plain": ("VAE",), "latent": ("LATENT",),
                             "encode": ("BOOLEAN", {"default": False}), **SWEEP}}

    def execute(self, guarded, plain, latent, encode, first, last, stride, times, kind):
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
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"guarded": ("CLIP",), "plain": ("CLIP",), **SWEEP},
                "optional": {"fresh": FRESH}}

    def execute(self, guarded, plain, first, last, stride, times, kind, fresh=False):
        def encode(clip):
            return clip.encode_from_tokens_scheduled(clip.tokenize("a red cube"))[0][0]

        def run(arm):
            start(fresh)
            arm()
            return encode(guarded)

        answer = Sweep(run, {"times": times, "kind": kind})(encode(plain), (first, last, stride))
        return {"ui": {"text": [json.dumps(answer)]}}

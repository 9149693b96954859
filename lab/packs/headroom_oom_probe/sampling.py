"""Sweeps over a sampling, by KSampler's way or through a guider."""

import json

import comfy.sample
import comfy.samplers
from comfy_extras import nodes_custom_sampler as custom

import nodes

from .sweep import FRESH, SWEEP, ProbeNode, Sweep, armed, start


class OomSweepSampling(ProbeNode):
    INPUTS = {
        "guarded": ("MODEL",), "plain": ("MODEL",), "positive": ("CONDITIONING",),
        "negative": ("CONDITIONING",), "latent": ("LATENT",),
        "steps": ("INT", {"default": 2}), "cfg": ("FLOAT", {"default": 4.0}),
        "sampler": ("STRING", {"default": "euler_ancestral"}), **SWEEP,
        "begins": ("STRING", {"default": "OUTER_SAMPLE"}),
    }
    OPTIONAL = {"guider": ("STRING", {"default": ""}), "fresh": FRESH,
                "negative_model": ("MODEL",)}

    def run(self, guarded, plain, positive, negative, latent, steps, cfg, sampler, first,
                last, stride, times, kind, begins, guider="", fresh=False,
                negative_model=None):
        def sample(model):
            start(fresh)
            if guider:
                own = _guider(guider, model, positive, negative, cfg, negative_model)
                return _custom_sample(own, sampler, steps, latent["samples"])
            return nodes.common_ksampler(
                model, 7, steps, cfg, sampler, "normal", positive, negative, latent
            )[0]["samples"]

        reference = sample(plain)
        settings = {"times": times, "kind": kind}
        sweep = Sweep(lambda arm: sample(armed(guarded, arm, begins)), settings)
        answer = sweep(reference, (first, last, stride))
        return {"ui": {"text": [json.dumps(answer)]}}


def _guider(kind, model, positive, negative, cfg, negative_model):
    """The guiders that SamplerCustomAdvanced is given by core's nodes."""
    if kind == "basic":
        made = custom.Guider_Basic(model)
        made.set_conds(positive)
    elif kind == "dual":
        made = custom.Guider_DualCFG(model)
        made.set_conds(positive, negative, negative)
        made.set_cfg(cfg, 2.0)
    else:
        made = (custom.Guider_DualModel(model, negative_model) if kind == "two models"
                else comfy.samplers.CFGGuider(model))
        made.set_conds(positive, negative)
        made.set_cfg(cfg)
    return made


def _custom_sample(guider, sampler, steps, latent):
    """What SamplerCustomAdvanced does with a guider, a sampler and sigmas."""
    sampling = guider.model_patcher.get_model_object("model_sampling")
    sigmas = comfy.samplers.calculate_sigmas(sampling, "karras", steps)
    noise = comfy.sample.prepare_noise(latent, 7)
    chosen = comfy.samplers.sampler_object(sampler)
    return guider.sample(noise, latent, chosen, sigmas, seed=7, disable_pbar=True).cpu()

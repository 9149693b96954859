"""Tiny diffusion transformers with random weights, loaded the way real files are."""

import comfy.ldm.modules.diffusionmodules.mmdit
import comfy.ldm.wan.model
import comfy.ops
import comfy.sd
import comfy.taesd.taesd
import torch

from .sweep import ProbeNode

SD3_CHANNELS, SD3_TEXT, SD3_POOLED = 16, 4096, 2048
SD3_POSITIONS = 64  # a side of 8 patches, 16 pixels each


class OomTinyWan(ProbeNode):
    """A Wan video model of a few hundred kilobytes with two texts and a latent."""

    RETURN_TYPES = ("MODEL", "CONDITIONING", "CONDITIONING", "LATENT")
    OUTPUT_NODE = False

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"batch": ("INT", {"default": 1})}}

    @classmethod
    def IS_CHANGED(cls, **_):
        return ""

    def execute(self, batch):
        generator = torch.Generator().manual_seed(11)
        network = comfy.ldm.wan.model.WanModel(
            model_type="t2v", dim=128, ffn_dim=256, freq_dim=256, text_dim=4096, out_dim=16,
            num_heads=1, num_layers=2, operations=comfy.ops.disable_weight_init,
            device="cpu", dtype=torch.float32,
        )
        weights = {
            name: torch.randn(value.shape, generator=generator) * 0.02
            for name, value in network.state_dict().items()
        }
        model = comfy.sd.load_diffusion_model_state_dict(weights)
        text = [
            [[torch.randn(1, length, 4096, generator=generator), {}]] for length in (20, 12)
        ]
        return model, *text, {"samples": torch.zeros(batch, 16, 3, 8, 8)}


class OomTinySD3(ProbeNode):
    """An SD3 of two blocks, and the tiny autoencoder of its 16 channels."""

    RETURN_TYPES = ("MODEL", "VAE")
    OUTPUT_NODE = False

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    @classmethod
    def IS_CHANGED(cls, **_):
        return ""

    def execute(self):
        generator = torch.Generator().manual_seed(12)
        network = comfy.ldm.modules.diffusionmodules.mmdit.OpenAISignatureMMDITWrapper(
            input_size=None, in_channels=SD3_CHANNELS, depth=2, adm_in_channels=SD3_POOLED,
            context_embedder_config={"target": "torch.nn.Linear",
                                     "params": {"in_features": SD3_TEXT, "out_features": 128}},
            num_patches=SD3_POSITIONS, pos_embed_max_size=8, device="cpu", dtype=torch.float32,
            operations=comfy.ops.disable_weight_init,
        )
        pixels = comfy.taesd.taesd.TAESD(latent_channels=SD3_CHANNELS)
        model = comfy.sd.load_diffusion_model_state_dict(_random(network, generator))
        return model, comfy.sd.VAE(sd=_random(pixels, generator))


def _random(network, generator):
    """Weights that keep activations in range: by the width of a layer, biases zero."""
    return {
        name: torch.randn(value.shape, generator=generator) / max(1, value[0].numel()) ** 0.5
        if value.dim() > 1 else torch.ones_like(value) * (value.dim() == 0 and "scale" in name)
        for name, value in network.state_dict().items()
    }

"""A tiny diffusion transformer with random weights, loaded the way real files are."""

import comfy.ldm.wan.model
import comfy.ops
import comfy.sd
import torch

from .sweep import ProbeNode


class OomTinyWan(ProbeNode):
    """A Wan video model of a few hundred kilobytes with two texts and a latent."""

    RETURN_TYPES = ("MODEL", "CONDITIONING", "CONDITIONING", "LATENT")
    OUTPUT_NODE = False
    INPUTS = {"batch": ("INT", {"default": 1})}

    @classmethod
    def IS_CHANGED(cls, **_):
        return ""

    def run(self, batch):
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

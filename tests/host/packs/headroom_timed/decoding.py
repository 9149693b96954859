"""A VAE that fills RAM with frames, 3 MiB each 25 ms, in ComfyUI's own decode."""

import math
import time

import comfy.model_management as mm
import comfy.ops
import comfy.sd
import torch
from comfy.model_patcher import ModelPatcher


class Frames(torch.nn.Module):
    """Decodes one step of time at once, as large models do, with one of ComfyUI's layers."""

    def __init__(self):
        super().__init__()
        self.layer = comfy.ops.disable_weight_init.Conv3d(16, 3, 1)
        for weight in self.layer.parameters():
            torch.nn.init.constant_(weight, 0.1)  # ComfyUI leaves them as memory has them

    def decode(self, latent, **_):
        frames = []
        for step in latent.split(1, dim=2):
            time.sleep(0.025)
            frames.append(torch.nn.functional.interpolate(self.layer(step), scale_factor=(4, 8, 8)))
        return torch.cat(frames, dim=2)


class TimedVideoVAE:
    """A VAE of Wan 2.1's shapes: four frames of 256 x 256 are 3 MiB."""

    CATEGORY = "headroom_timed"
    RETURN_TYPES = ("VAE",)
    FUNCTION = "run"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    def run(self):
        vae = comfy.sd.VAE(sd={"pixel_space_vae": torch.tensor(1.0)}, dtype=torch.float32)
        vae.first_stage_model = Frames()
        vae.patcher = ModelPatcher(vae.first_stage_model, load_device=vae.device,
                                   offload_device=mm.vae_offload_device())
        vae.latent_dim, vae.latent_channels, vae.output_channels = 3, 16, 3
        vae.process_output = lambda decoded: decoded
        vae.memory_used_decode = lambda shape, dtype: math.prod(shape)
        return (vae,)

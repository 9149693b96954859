"""VAEs that fill RAM with frames and with sound, 3 MiB each 25 ms, in ComfyUI's own decodes."""

import math
import time

import comfy.model_management as mm
import comfy.ops
import comfy.sd
import torch
from comfy.model_patcher import ModelPatcher

from .waiting import Node


class Pieces(torch.nn.Module):
    """Decodes so many steps of time at once, as large models do, with one of ComfyUI's layers."""

    def __init__(self, layer, steps, grows):
        super().__init__()
        self.layer, self.steps, self.grows = layer, steps, grows

    def decode(self, latent, **_):
        pieces = []
        for piece in latent.split(self.steps, dim=2):
            time.sleep(0.025)
            pieces.append(torch.nn.functional.interpolate(self.layer(piece),
                                                          scale_factor=self.grows))
        return torch.cat(pieces, dim=2)


class TimedVideoVAE(Node):
    """A VAE of Wan 2.1's shapes: four frames of 256 x 256 are 3 MiB."""

    RETURN_TYPES = ("VAE",)
    LAYER, STEPS, GROWS, LATENT, OUT = comfy.ops.disable_weight_init.Conv3d, 1, (4, 8, 8), 16, 3

    def run(self):
        vae = comfy.sd.VAE(sd={"pixel_space_vae": torch.tensor(1.0)}, dtype=torch.float32)
        layer = self.LAYER(self.LATENT, self.OUT, 1)
        for weight in layer.parameters():
            torch.nn.init.constant_(weight, 0.1)  # ComfyUI leaves them as memory has them
        vae.first_stage_model = Pieces(layer, self.STEPS, self.GROWS)
        vae.patcher = ModelPatcher(vae.first_stage_model, load_device=vae.device,
                                   offload_device=mm.vae_offload_device())
        vae.latent_dim, vae.latent_channels, vae.output_channels = (
            len(self.GROWS), self.LATENT, self.OUT)
        vae.process_output = lambda decoded: decoded
        vae.memory_used_decode = lambda shape, dtype: math.prod(shape)
        return (vae,)


class TimedAudioVAE(TimedVideoVAE):
    """A VAE of Stable Audio's shapes: seven seconds of sound are 2.5 MiB."""

    LAYER, STEPS, GROWS, LATENT, OUT = comfy.ops.disable_weight_init.Conv1d, 160, (2048,), 64, 2

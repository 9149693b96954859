"""VAEs of sound on ComfyUI's own class, with the shapes of real ones and small networks."""

import comfy.sd
import torch
from comfy.model_patcher import ModelPatcher
from torch import nn

from .sweep import ProbeNode


class Waveforms(nn.Module):
    """Stable Audio's shapes: latents (B, channels, T), `ratio` samples each."""

    def __init__(self, channels, ratio):
        super().__init__()
        self.first = nn.Conv1d(2, channels, ratio, ratio)
        self.last = nn.ConvTranspose1d(channels, 2, ratio, ratio)

    def encode(self, waveform):
        return self.first(waveform)

    def decode(self, latents):
        return self.last(latents)


class MusicDCAE(Waveforms):
    """ACE-Step's: latents (B, 8, 16, T)."""

    def encode(self, waveform):
        return super().encode(waveform).unflatten(1, (8, 16))

    def decode(self, latents):
        return super().decode(latents.flatten(1, 2))


class TimeInTheMiddle(Waveforms):
    """LTX's: latents (B, 8, T, 16)."""

    def encode(self, waveform):
        return super().encode(waveform).unflatten(1, (8, 16)).movedim(2, 3)

    def decode(self, latents):
        return super().decode(latents.movedim(3, 2).reshape(len(latents), 8 * 16, -1))


class TwoChannels(Waveforms):
    """MiniMax's: latents (B, 32, 2, T)."""

    def encode(self, waveform):
        return super().encode(waveform).unflatten(1, (32, 2))

    def decode(self, latents):
        return super().decode(latents.flatten(1, 2))


KINDS = {
    "Stable Audio": (Waveforms, 64, 2048, {"latent_dim": 1}, (64, 150)),
    "ACE-Step": (MusicDCAE, 128, 4096, {"extra_1d_channel": 16, "latent_channels": 8}, (8, 16, 90)),
    "LTX": (TimeInTheMiddle, 128, 640, {"extra_1d_channel": 16}, (8, 126, 16)),
    "MiniMax": (TwoChannels, 64, 800, {}, (32, 2, 90)),
}


class OomSoundVAE(ProbeNode):
    """A VAE of one of KINDS, and empty latents of its shape."""

    RETURN_TYPES = ("VAE", "LATENT")
    OUTPUT_NODE = False
    INPUTS = {"kind": ("STRING",)}

    def run(self, kind):
        network, channels, ratio, attributes, shape = KINDS[kind]
        vae = comfy.sd.VAE(sd={"pixel_space_vae": torch.tensor(1.0)}, dtype=torch.float32)
        generator = torch.Generator().manual_seed(5)
        vae.first_stage_model = network(channels, ratio).eval()
        for weight in vae.first_stage_model.parameters():
            torch.nn.init.normal_(weight, 0, 0.02, generator)
        vae.patcher = ModelPatcher(vae.first_stage_model, load_device=vae.device,
                                   offload_device=torch.device("cpu"))
        vars(vae).update(
            {"latent_channels": channels, "output_channels": 2, "upscale_ratio": ratio,
             "downscale_ratio": ratio, "disable_offload": True, "pad_channel_value": "replicate",
             "process_input": lambda sound: sound, "process_output": lambda sound: sound,
             "memory_used_encode": lambda shape, dtype: shape[-1] * 8,
             "memory_used_decode": lambda shape, dtype: shape[-1] * 8 * ratio, **attributes})
        return vae, {"samples": torch.zeros(1, *shape)}

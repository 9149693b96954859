"""A VAE, a CLIP and a network like ComfyUI's, as far as a guard or an encoding asks."""

import torch

from support.calls import OOM_TEXT
from support.hosts import Patcher


class Network(torch.nn.Linear):
    """Doubles what it gets; runs out of memory in its next `fails` calls."""

    def __init__(self, fails=0):
        super().__init__(1, 1)
        self.fails = fails

    def decode(self, x):
        if self.fails > 0:
            self.fails -= 1
            raise torch.OutOfMemoryError(OOM_TEXT)
        return x * 2

    encode = decode


class VAE:
    """`asked` are the arguments of its tiles, by name."""

    latent_dim, vae_dtype = 2, torch.float32

    def __init__(self, network=None, device="cpu"):
        self.first_stage_model = Network() if network is None else network
        self.patcher, self.device, self.asked = Patcher(device=device), device, []

    def memory_used_decode(self, shape, dtype):
        return 1.0

    memory_used_encode = memory_used_decode

    ratio = 8

    def spacial_compression_decode(self):
        return self.ratio

    spacial_compression_encode = spacial_compression_decode

    def decode(self, samples_in):
        return self.first_stage_model.decode(samples_in)

    def encode(self, pixel_samples, not_video=None):
        return self.first_stage_model.encode(pixel_samples)

    def decode_tiled(self, samples, tile_x=None, tile_y=None, overlap=None, tile_t=None,
                     overlap_t=None):
        self.asked.append({"tile_x": tile_x, "tile_t": tile_t, "overlap_t": overlap_t})
        return self.first_stage_model.decode(samples)

    def encode_tiled(self, pixel_samples, tile_x=None, tile_y=None, overlap=None, tile_t=None,
                     overlap_t=None, not_video=None):
        self.asked.append({"tile_x": tile_x, "overlap": overlap, "not_video": not_video})
        return self.first_stage_model.encode(pixel_samples)


class CLIP:
    """`encoded` are the tokens that it was given."""

    def __init__(self, device="cpu"):
        self.patcher, self.cond_stage_model, self.encoded = Patcher(device=device), Network(), []

    def clone(self):  # ComfyUI makes an object of its own class and fills in what it knows
        made = CLIP.__new__(CLIP)
        made.patcher, made.cond_stage_model = self.patcher, self.cond_stage_model
        made.encoded = self.encoded
        return made

    def load_model(self):
        return self.patcher

    def encode_from_tokens(self, tokens):
        self.load_model()
        self.encoded.append(tokens)
        return self.cond_stage_model.decode(tokens)

    def encode_from_tokens_scheduled(self, tokens):
        return [[self.encode_from_tokens(tokens), {}]]


class Encoder:
    """A CLIP that computes: a text's embedding is its length, a slice of a larger buffer."""

    def __init__(self, extra=None):
        self.asked, self.extra = [], extra or {}
        self.buffer = torch.arange(1000.0)

    def tokenize(self, text):
        return list(text)

    def encode_from_tokens_scheduled(self, tokens):
        assert torch.is_inference_mode_enabled()
        self.asked.append("".join(tokens))
        view = self.buffer[len(tokens) : len(tokens) + 2]
        return [[view, {"pooled_output": view[:1], **self.extra}]]

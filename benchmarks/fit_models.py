"""Models of diffusers and transformers at published sizes, without weights, for fit_cases.py."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxTransformer2DModel,
    LTXVideoTransformer3DModel,
    UNet2DConditionModel,
)
from transformers import CLIPTextConfig, T5Config, T5EncoderModel

DEVICE = "cuda"


def made(kind: Any, dtype: torch.dtype, device: str = DEVICE, **config: Any) -> Any:
    """A model of that class whose weights are memory that nobody has written to."""
    with torch.device("meta"):
        model = kind(**config).to(dtype)
    return model.to_empty(device=device).eval()


def unet(dtype: torch.dtype, device: str = DEVICE) -> Any:
    return made(
        UNet2DConditionModel, dtype, device, sample_size=128,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(320, 640, 1280), cross_attention_dim=2048,
        transformer_layers_per_block=[1, 2, 10], attention_head_dim=[5, 10, 20],
        use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816)


def flux(dtype: torch.dtype, device: str = DEVICE) -> Any:
    return made(FluxTransformer2DModel, dtype, device, guidance_embeds=True)


def ltx(dtype: torch.dtype, device: str = DEVICE) -> Any:
    return made(LTXVideoTransformer3DModel, dtype, device, num_layers=48, attention_head_dim=128,
                num_attention_heads=32, cross_attention_dim=4096, caption_channels=4096)


def vae(dtype: torch.dtype, latents: int, device: str = DEVICE, **more: Any) -> Any:
    return made(
        AutoencoderKL, dtype, device, block_out_channels=[128, 256, 512, 512], layers_per_block=2,
        latent_channels=latents, down_block_types=["DownEncoderBlock2D"] * 4,
        up_block_types=["UpDecoderBlock2D"] * 4, sample_size=1024, **more)


def clip(kind: Any, dtype: torch.dtype, big: bool, device: str = DEVICE) -> Any:
    sizes = {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32,
             "num_attention_heads": 20, "projection_dim": 1280} if big else {
                 "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
                 "num_attention_heads": 12, "projection_dim": 768}
    return made(kind, dtype, device, config=CLIPTextConfig(**sizes))


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Any:
    return torch.empty(shape, dtype=dtype, device=DEVICE)


def largest(model: Any) -> int:
    return max(weight.numel() * weight.element_size() for weight in model.parameters())


class FromTheFirst(FlowMatchEulerDiscreteScheduler):
    """Begins at its first step without a look-up, which would read values from the device."""

    def set_timesteps(
        self, num_inference_steps: Any = None, device: Any = None, sigmas: Any = None,
        mu: Any = None, timesteps: Any = None,
    ) -> None:
        super().set_timesteps(num_inference_steps, device, sigmas, mu, timesteps)
        self.set_begin_index(0)


def t5(dtype: torch.dtype, device: str = DEVICE) -> Any:
    return made(T5EncoderModel, dtype, device, config=T5Config(
        vocab_size=32128, d_model=4096, d_kv=64, d_ff=10240, num_layers=24, num_heads=64,
        feed_forward_proj="gated-gelu"))

"""Videos of diffusers whose memory somebody has published, run as fit_cases.py runs pictures.

    python lab/fakecuda/main.py --capacity-mib 131072 benchmarks/fit_cases_video.py -- ltx_whole

Sizes are those of the published configurations. Two steps each: the others take the same memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from diffusers import (
    AutoencoderKLCogVideoX,
    AutoencoderKLHunyuanVideo,
    AutoencoderKLLTXVideo,
    CogVideoXDDIMScheduler,
    CogVideoXPipeline,
    CogVideoXTransformer3DModel,
    HunyuanVideoPipeline,
    HunyuanVideoTransformer3DModel,
    LTXPipeline,
    LTXVideoTransformer3DModel,
    WanTransformer3DModel,
)
from fit_cases import main
from fit_models import DEVICE, FromTheFirst, clip, made, random, t5
from transformers import CLIPTextModel, LlamaConfig, LlamaModel

BF16 = torch.bfloat16
SIZE = {"height": 512, "width": 768, "num_frames": 121}  # as the source has it for all three
SHORT = {"num_inference_steps": 2, "output_type": "pt"}


def finished(pipe: Any, offload: bool = False) -> Any:
    if offload:
        pipe.enable_model_cpu_offload()
    pipe.set_progress_bar_config(disable=True)
    return pipe


def hunyuan(tiling: bool = False, offload: bool = False, upcasting: bool = False) -> None:
    """HunyuanVideo, 13B, with its Llama 3 8B and CLIP: guidance is an input, so one pass a step."""
    device = "cpu" if offload else DEVICE
    llama = LlamaConfig(vocab_size=128320, hidden_size=4096, intermediate_size=14336,
                        num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8)
    pipe = HunyuanVideoPipeline(
        text_encoder=made(LlamaModel, BF16, device, config=llama), tokenizer=None,
        transformer=made(HunyuanVideoTransformer3DModel, BF16, device),
        vae=made(AutoencoderKLHunyuanVideo, BF16, device), scheduler=FromTheFirst(),
        text_encoder_2=clip(CLIPTextModel, BF16, False, device), tokenizer_2=None)
    if upcasting:
        pipe.transformer.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn,
                                                  compute_dtype=BF16)
        torch.cuda.reset_peak_memory_stats()  # the source casts before the model is on the GPU
    if tiling:
        pipe.vae.enable_tiling()
    finished(pipe, offload)(
        prompt_embeds=random(1, 128, 4096), pooled_prompt_embeds=random(1, 768),
        prompt_attention_mask=torch.ones(1, 128, dtype=torch.long, device=DEVICE),
        **SIZE, **SHORT)


def ltx_whole() -> None:
    """LTX-Video, 2B, the first release."""
    pipe = LTXPipeline(
        scheduler=FromTheFirst(), vae=made(AutoencoderKLLTXVideo, BF16), text_encoder=t5(BF16),
        tokenizer=None, transformer=made(LTXVideoTransformer3DModel, BF16))
    words = {name: random(1, 128, 4096) for name in ("prompt_embeds", "negative_prompt_embeds")}
    masks = {name: torch.ones(1, 128, dtype=torch.long, device=DEVICE)
             for name in ("prompt_attention_mask", "negative_prompt_attention_mask")}
    finished(pipe)(**words, **masks, **SIZE, **SHORT)


def cogvideox() -> None:
    """CogVideoX 1.5, 5B."""
    pipe = CogVideoXPipeline(
        tokenizer=None, text_encoder=t5(BF16), vae=made(AutoencoderKLCogVideoX, BF16),
        transformer=made(
            CogVideoXTransformer3DModel, BF16, num_attention_heads=48, num_layers=42,
            patch_size_t=2, sample_width=300, sample_height=300, sample_frames=81,
            use_rotary_positional_embeddings=True, patch_bias=False),
        scheduler=CogVideoXDDIMScheduler())
    words = {name: random(1, 128, 4096) for name in ("prompt_embeds", "negative_prompt_embeds")}
    finished(pipe)(**words, max_sequence_length=128, **SIZE, **SHORT)


def wan() -> None:
    """One pass of Wan 2.1's 14B transformer: 81 frames of 832x480, 512 tokens."""
    with torch.no_grad():
        made(WanTransformer3DModel, BF16)(
            hidden_states=random(1, 16, 21, 60, 104), encoder_hidden_states=random(1, 512, 4096),
            timestep=torch.tensor([1.0], device=DEVICE, dtype=BF16), return_dict=False)


CASES: dict[str, Callable[[], int | None]] = {
    "hunyuan": hunyuan,
    "hunyuan_tiling": partial(hunyuan, tiling=True),
    "hunyuan_offload": partial(hunyuan, offload=True),
    "hunyuan_upcasting": partial(hunyuan, upcasting=True),
    "hunyuan_upcasting_offload": partial(hunyuan, offload=True, upcasting=True),
    "hunyuan_upcasting_tiling": partial(hunyuan, tiling=True, upcasting=True),
    "ltx_whole": ltx_whole,
    "cogvideox": cogvideox,
    "wan": wan,
}


if __name__ == "__main__":
    main(CASES)

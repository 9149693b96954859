"""What diffusers takes on a GPU for calls whose memory somebody has published.

    python lab/fakecuda/main.py --capacity-mib 131072 benchmarks/fit_cases.py -- sdxl_unet

Models have the published sizes and no weights (fit_models.py); the calls are those of the source.
Prints a line of JSON for each case: GiB by PyTorch's own count of allocated memory, as the sources
count.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from diffusers import (
    AutoencoderTiny,
    DDIMScheduler,
    FluxPipeline,
    PixArtSigmaPipeline,
    PixArtTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionXLPipeline,
)
from fit_models import DEVICE, FromTheFirst, clip, flux, largest, ltx, made, random, t5, unet, vae
from transformers import CLIPTextModel, CLIPTextModelWithProjection

GIB = 1 << 30
UNET_INPUTS = dict(sample=(1, 4, 128, 128), encoder_hidden_states=(1, 77, 2048))
FLUX_INPUTS = dict(hidden_states=(1, 4096, 64), encoder_hidden_states=(1, 512, 4096),
                   pooled_projections=(1, 768), img_ids=(4096, 3), txt_ids=(512, 3),
                   timestep=(1,), guidance=(1,))
LTX_INPUTS = dict(hidden_states=(1, 7392, 128), encoder_hidden_states=(1, 256, 4096),
                  timestep=(1,), encoder_attention_mask=(1, 256))


def inputs_of(kind: str) -> dict[str, Any]:
    shapes = {"unet": UNET_INPUTS, "flux": FLUX_INPUTS, "ltx": LTX_INPUTS}[kind]
    found: dict[str, Any] = {name: random(*shape) for name, shape in shapes.items()}
    if kind == "unet":
        found["added_cond_kwargs"] = {"text_embeds": random(1, 1280), "time_ids": random(1, 6)}
        found["timestep"] = torch.tensor([1.0], device=DEVICE)
    if kind == "ltx":
        found |= {"num_frames": 21, "height": 16, "width": 22}
    return found


def transformer(kind: str, way: str = "plain") -> int:
    """One forward pass of a denoiser in bfloat16, as Hugging Face's own benchmarks make it.

    Returns the bytes of the largest weight, where they are streamed.
    """
    device = "cpu" if way == "group_offload" else DEVICE
    model = {"unet": unet, "flux": flux, "ltx": ltx}[kind](torch.bfloat16, device)
    if way == "upcasting":
        model.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn,
                                       compute_dtype=torch.bfloat16)
    if way == "group_offload":
        model.enable_group_offload(
            onload_device=torch.device(DEVICE), offload_device=torch.device("cpu"),
            offload_type="leaf_level", use_stream=True, non_blocking=True,
            low_cpu_mem_usage=True)  # pins leaf by leaf: else all weights would lie in RAM
    with torch.no_grad():
        model(**inputs_of(kind), return_dict=False)
    return largest(model) if way == "group_offload" else 0


def sdxl(way: str = "", dtype: torch.dtype = torch.float16) -> int:
    """Four pictures of 1024 px, two steps, the default attention; `way` is one setting.

    Returns the bytes of the largest weight, where they are streamed.
    """
    device = "cpu" if way in ("offload", "sequential") else DEVICE
    pipe = StableDiffusionXLPipeline(
        vae=vae(dtype, 4, device, scaling_factor=0.13025, force_upcast=True),
        text_encoder=clip(CLIPTextModel, dtype, False, device),
        text_encoder_2=clip(CLIPTextModelWithProjection, dtype, True, device),
        tokenizer=None, tokenizer_2=None, unet=unet(dtype, device), scheduler=DDIMScheduler())
    layer = largest(pipe.unet) if way == "sequential" else 0
    if way == "offload":
        pipe.enable_model_cpu_offload()
    if way == "sequential":
        pipe.enable_sequential_cpu_offload()
    if way == "plain attention":
        pipe.unet.set_default_attn_processor()
    if way == "tiny":
        pipe.vae = made(AutoencoderTiny, dtype)
    if way == "slicing":
        pipe.vae.enable_slicing()
    words = {name: random(1, 77, 2048, dtype=dtype)
             for name in ("prompt_embeds", "negative_prompt_embeds")}
    pooled = {name: random(1, 1280, dtype=dtype)
              for name in ("pooled_prompt_embeds", "negative_pooled_prompt_embeds")}
    pipe.set_progress_bar_config(disable=True)
    pipe(**words, **pooled, num_images_per_prompt=4, num_inference_steps=2, output_type="pt")
    return layer


def sd3(dtype: torch.dtype = torch.float16) -> None:
    """One picture of 1024 px with the default settings, two steps."""
    pipe = StableDiffusion3Pipeline(
        transformer=made(SD3Transformer2DModel, dtype, sample_size=128, num_layers=24,
                         num_attention_heads=24, attention_head_dim=64,
                         caption_projection_dim=1536, pos_embed_max_size=192),
        scheduler=FromTheFirst(),
        vae=vae(dtype, 16, scaling_factor=1.5305, shift_factor=0.0609, use_quant_conv=False,
                use_post_quant_conv=False, force_upcast=True),
        text_encoder=clip(CLIPTextModelWithProjection, dtype, False), tokenizer=None,
        text_encoder_2=clip(CLIPTextModelWithProjection, dtype, True), tokenizer_2=None,
        text_encoder_3=t5(dtype), tokenizer_3=None)
    words = {name: random(1, 333, 4096, dtype=dtype)
             for name in ("prompt_embeds", "negative_prompt_embeds")}
    pooled = {name: random(1, 2048, dtype=dtype)
              for name in ("pooled_prompt_embeds", "negative_pooled_prompt_embeds")}
    pipe.set_progress_bar_config(disable=True)
    pipe(**words, **pooled, num_inference_steps=2, output_type="pt")


def flux_pipeline(offload: bool = False, dtype: torch.dtype = torch.bfloat16) -> None:
    """One picture of 1024 px in bfloat16 with 512 tokens, two steps."""
    device = "cpu" if offload else DEVICE
    pipe = FluxPipeline(
        transformer=flux(dtype, device), scheduler=FromTheFirst(),
        vae=vae(dtype, 16, device, scaling_factor=0.3611, shift_factor=0.1159,
                use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=clip(CLIPTextModel, dtype, False, device), tokenizer=None,
        text_encoder_2=t5(dtype, device), tokenizer_2=None)
    if offload:
        pipe.enable_model_cpu_offload()
    pipe.set_progress_bar_config(disable=True)
    pipe(prompt_embeds=random(1, 512, 4096, dtype=dtype), height=1024, width=1024,
         pooled_prompt_embeds=random(1, 768, dtype=dtype), num_inference_steps=2,
         output_type="pt")


def pixart(dtype: torch.dtype = torch.float16) -> None:
    """PixArt-Sigma: one picture of 1024 px, two steps."""
    pipe = PixArtSigmaPipeline(
        transformer=made(PixArtTransformer2DModel, dtype, sample_size=128, out_channels=8,
                         caption_channels=4096, use_additional_conditions=False),
        scheduler=DDIMScheduler(), vae=vae(dtype, 4, scaling_factor=0.13025),
        text_encoder=t5(dtype), tokenizer=None)
    words = {name: random(1, 300, 4096, dtype=dtype)
             for name in ("prompt_embeds", "negative_prompt_embeds")}
    masks = {name: torch.ones(1, 300, dtype=torch.long, device=DEVICE)
             for name in ("prompt_attention_mask", "negative_prompt_attention_mask")}
    pipe.set_progress_bar_config(disable=True)
    pipe(None, negative_prompt=None, **words, **masks, num_inference_steps=2, output_type="pt",
         use_resolution_binning=False, height=1024, width=1024)


CASES: dict[str, Callable[[], int | None]] = {
    **{f"{kind}_{way}": partial(transformer, kind, way)
       for kind in ("unet", "flux", "ltx") for way in ("plain", "upcasting", "group_offload")},
    "sdxl_fp16": sdxl,
    "sdxl_fp32": lambda: sdxl("plain attention", torch.float32),
    "sdxl_slicing": lambda: sdxl("slicing"),
    "sdxl_tiny": lambda: sdxl("tiny"),
    "sdxl_offload": lambda: sdxl("offload"),
    "sdxl_sequential": lambda: sdxl("sequential"),
    "sd3": sd3,
    "flux_pipeline": flux_pipeline,
    "flux_pipeline_offload": lambda: flux_pipeline(offload=True),
    "pixart": pixart,
}


def main(cases: dict[str, Callable[[], int | None]]) -> None:
    """Run the cases that the command line names, and print what each took."""
    torch.set_grad_enabled(False)
    for name in sys.argv[1:]:
        torch.cuda.reset_peak_memory_stats()
        layer = cases[name]() or 0
        print(json.dumps({
            "case": name, "gib": round(torch.cuda.max_memory_allocated() / GIB, 3),
            "layer_gib": round(layer / GIB, 3)}), flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(CASES)

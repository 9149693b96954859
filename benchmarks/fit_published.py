"""Figures of real GPUs that somebody has published, each with the case that repeats it.

It has those figures whose model, number type, size, frames and library are known, so that the same
calls can be made; in GiB by PyTorch's count of allocated memory. It has no figures of quantising
libraries, and none without a size. ComfyUI's templates tell what share of a card of 24,564 MiB was
in use, whoever used it: `dev.py fit` itself runs these.
"""

from __future__ import annotations

from typing import NamedTuple

HF = "https://huggingface.co/"
BENCHMARKS = f"{HF}datasets/diffusers/benchmarks"
SDXL = f"{HF}blog/simple_sdxl_optimizations"
VIDEO = f"{HF}blog/video_gen"
VIDEO_TALK = "https://github.com/huggingface/blog/pull/2592"
QUANTIZED = f"{HF}datasets/derekl35/diffusers-quantization-benchmarks"


TEMPLATES = "https://github.com/Comfy-Org/workflow_templates"
CARD_GIB = 24564 / 1024  # an RTX 4090 of 24 GB


class Published(NamedTuple):
    """One published figure: the case that repeats it, what it is of, GiB, and who published it."""

    case: str
    what: str
    chinese: str
    gib: float
    whole: bool  # a whole run from the text encoder to the picture, not one model
    source: str


PUBLISHED = (
    Published("unet_plain", "SDXL UNet, bfloat16",
              "SDXL UNet，bfloat16", 5.05, False, BENCHMARKS),
    Published("unet_upcasting", "SDXL UNet, float8 weights",
              "SDXL UNet，float8 权重", 4.89, False, BENCHMARKS),
    Published("flux_plain", "Flux.1 transformer, bfloat16",
              "Flux.1 Transformer，bfloat16", 22.61, False, BENCHMARKS),
    Published("flux_upcasting", "Flux.1 transformer, float8 weights",
              "Flux.1 Transformer，float8 权重", 22.18, False, BENCHMARKS),
    Published("flux_group_offload", "Flux.1 transformer, streamed by leaves",
              "Flux.1 Transformer，逐层流式传输", 0.53, False, BENCHMARKS),
    Published("ltx_plain", "LTX-Video 0.9.7 transformer, bfloat16",
              "LTX-Video 0.9.7 Transformer，bfloat16", 25.21, False, BENCHMARKS),
    Published("ltx_upcasting", "LTX-Video 0.9.7 transformer, float8 weights",
              "LTX-Video 0.9.7 Transformer，float8 权重", 24.38, False, BENCHMARKS),
    Published("ltx_group_offload", "LTX-Video 0.9.7 transformer, streamed by leaves",
              "LTX-Video 0.9.7 Transformer，逐层流式传输", 1.04, False, BENCHMARKS),
    Published("flux_pipeline", "Flux.1, whole, bfloat16, 1024 px",
              "Flux.1，完整运行，bfloat16，1024 像素", 36.166, True, QUANTIZED),
    Published("flux_pipeline_offload", "Flux.1, whole, model offload, 1024 px",
              "Flux.1，完整运行，按模型卸载，1024 像素", 23.271, True, QUANTIZED),
    Published("sd3", "SD3 medium, whole, float16, 1024 px, on an H100",
              "SD3 medium，完整运行，float16，1024 像素，H100 上",
              16.403, True, f"{HF}blog/quanto-diffusers"),
    Published("sd3", "SD3 medium, whole, float16, 1024 px, on an A100",
              "SD3 medium，完整运行，float16，1024 像素，A100 上",
              18.765, True, f"{HF}blog/sd3"),
    Published("pixart", "PixArt-Sigma, whole, float16, 1024 px",
              "PixArt-Sigma，完整运行，float16，1024 像素", 12.086, True,
              f"{HF}blog/quanto-diffusers"),
    Published("sdxl_fp16", "SDXL, whole, float16, 4 pictures, VAE in float32",
              "SDXL，完整运行，float16，4 张图，VAE 为 float32", 21.72, True, SDXL),
    Published("sdxl_fp32", "SDXL, whole, float32, 4 pictures",
              "SDXL，完整运行，float32，4 张图", 28.09, True, SDXL),
    Published("sdxl_slicing", "SDXL, whole, float16, 4 pictures, VAE one by one",
              "SDXL，完整运行，float16，4 张图，VAE 逐张解码", 15.4, True, SDXL),
    Published("sdxl_tiny", "SDXL, whole, float16, 4 pictures, tiny VAE",
              "SDXL，完整运行，float16，4 张图，微型 VAE", 15.48, True, SDXL),
    Published("sdxl_offload", "SDXL, whole, float16, 4 pictures, model offload",
              "SDXL，完整运行，float16，4 张图，按模型卸载", 20.2, True, SDXL),
    Published("sdxl_sequential", "SDXL, whole, float16, 4 pictures, streamed by leaves",
              "SDXL，完整运行，float16，4 张图，逐层流式传输", 19.9, True, SDXL),
    Published("wan", "Wan 2.1 14B transformer, bfloat16, 81 frames of 832x480",
              "Wan 2.1 14B Transformer，bfloat16，81 帧 832x480", 30.2, False, BENCHMARKS),
    Published("ltx_whole", "LTX-Video 2B, whole, bfloat16, 121 frames of 768x512",
              "LTX-Video 2B，完整运行，bfloat16，121 帧 768x512", 17.75, True, VIDEO),
    Published("cogvideox", "CogVideoX 1.5 5B, whole, bfloat16, 121 frames of 768x512",
              "CogVideoX 1.5 5B，完整运行，bfloat16，121 帧 768x512", 36.51, True, VIDEO),
    Published("hunyuan", "HunyuanVideo, whole, bfloat16, 121 frames of 768x512",
              "HunyuanVideo，完整运行，bfloat16，121 帧 768x512", 60.10, True, VIDEO),
    Published("hunyuan_tiling", "the same, VAE in tiles",
              "同上，VAE 分块", 43.58, True, VIDEO),
    Published("hunyuan_offload", "the same, model offload",
              "同上，按模型卸载", 28.87, True, VIDEO),
    Published("hunyuan_upcasting", "the same, transformer in float8",
              "同上，Transformer 为 float8", 51.70, True, VIDEO_TALK),
    Published("hunyuan_upcasting_tiling", "the same, transformer in float8, VAE in tiles",
              "同上，Transformer 为 float8，VAE 分块", 35.17, True, VIDEO_TALK),
    Published("hunyuan_upcasting_offload", "the same, transformer in float8, model offload",
              "同上，Transformer 为 float8，按模型卸载", 21.99, True, VIDEO_TALK),
    Published("image_qwen_image", "Qwen-Image fp8, a template of ComfyUI, 1328 px",
              "Qwen-Image fp8，ComfyUI 模板，1328 像素", 0.86 * CARD_GIB, True, TEMPLATES),
    Published("video_wan2_2_14B_t2v", "Wan 2.2 14B fp8 with LoRA, a template, 81 frames of 640x640",
              "Wan 2.2 14B fp8 加 LoRA，模板，81 帧 640x640", 0.89 * CARD_GIB, True, TEMPLATES),
    Published("video_wan2_2_14B_i2v", "the same from a picture",
              "同上，由图片生成", 0.83 * CARD_GIB, True, TEMPLATES),
)

"""The public model files that the bundled workflows ask for."""

from __future__ import annotations

from ..canvas import ModelFile

HUB = "https://huggingface.co"
WAN = f"{HUB}/Comfy-Org/Wan_2.1_ComfyUI_repackaged/resolve/main/split_files"
FLUX_TEXT = f"{HUB}/comfyanonymous/flux_text_encoders/resolve/main"


def _file(directory: str, url: str) -> ModelFile:
    return ModelFile(url.rpartition("/")[2], url, directory)


SD15 = _file(
    "checkpoints",
    f"{HUB}/Comfy-Org/stable-diffusion-v1-5-archive/resolve/main/"
    "v1-5-pruned-emaonly-fp16.safetensors",
)
SD15_CANNY = _file(
    "controlnet",
    f"{HUB}/comfyanonymous/ControlNet-v1-1_fp16_safetensors/resolve/main/"
    "control_v11p_sd15_canny_fp16.safetensors",
)
SDXL = _file(
    "checkpoints",
    f"{HUB}/stabilityai/stable-diffusion-xl-base-1.0/resolve/main/sd_xl_base_1.0.safetensors",
)
UMT5 = _file("text_encoders", f"{WAN}/text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors")
WAN_T2V = _file("diffusion_models", f"{WAN}/diffusion_models/wan2.1_t2v_1.3B_fp16.safetensors")
WAN_VAE = _file("vae", f"{WAN}/vae/wan_2.1_vae.safetensors")
FLUX = _file(
    "diffusion_models", f"{HUB}/Comfy-Org/flux1-dev/resolve/main/flux1-dev.safetensors"
)
FLUX_CANNY = _file(
    "controlnet",
    f"{HUB}/XLabs-AI/flux-controlnet-collections/resolve/main/flux-canny-controlnet-v3.safetensors",
)
CLIP_L = _file("text_encoders", f"{FLUX_TEXT}/clip_l.safetensors")
T5 = _file("text_encoders", f"{FLUX_TEXT}/t5xxl_fp16.safetensors")
FLUX_VAE = _file(
    "vae",
    f"{HUB}/Comfy-Org/Lumina_Image_2.0_Repackaged/resolve/main/split_files/vae/ae.safetensors",
)
QWEN = _file(
    "text_encoders",
    f"{HUB}/Comfy-Org/HunyuanVideo_1.5_repackaged/resolve/main/split_files/text_encoders/"
    "qwen_2.5_vl_7b_fp8_scaled.safetensors",
)

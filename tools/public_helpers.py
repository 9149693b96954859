"""Published files that work beside or instead of a diffusion model of their own, by their names.

ControlNets, patches, language models, VAEs. Like public_single.py, which imports it.
"""

from .number_types import INT8, NVFP4, SCALED
from .public_classes import Made, of

QWEN_CONTROL, PATCHES = "qwen_image.controlnet:", "comfy_extras.nodes_model_patch:"
HELPERS: dict[str, list[tuple[Made, dict[str, str]]]] = {
    "controlnet": [
        (of("comfy.cldm.dit_embedder:ControlNetEmbedder", img_size=None, patch_size=2,
                   in_chans=16, num_layers=19, main_model_double=38, double_y_emb=True,
                   attention_head_dim=64, num_attention_heads=38, adm_in_channels=2048),
         {"F32": "sd3.5_large_controlnet_blur sd3.5_large_controlnet_canny "
                 "sd3.5_large_controlnet_depth"}),
        (of(f"{QWEN_CONTROL}QwenImageControlNetModel", num_layers=5),
         {"BF16": "Qwen-Image-InstantX-ControlNet-Union"}),
        (of(f"{QWEN_CONTROL}QwenImageControlNetModel", num_layers=6, extra_condition_channels=4),
         {"BF16": "Qwen-Image-InstantX-ControlNet-Inpainting"}),
        (of(f"{QWEN_CONTROL}QwenImageFunControlNetModel", control_in_features=132, inner_dim=3072,
            num_attention_heads=24, attention_head_dim=128, num_control_blocks=5,
            main_model_double=60, injection_layers=[0, 12, 24, 36, 48]),
         {"BF16": "Qwen-Image-2512-Fun-Controlnet-Union-2602"}),
        (("sd15_controlnet",),
         {"F16": "control_v11p_sd15_canny_fp16 control_v11p_sd15_scribble_fp16 "
                 "control_v11p_sd15_openpose_fp16 control_v11f1p_sd15_depth_fp16"}),
        (("flux_controlnet", 2), {"BF16": "flux-canny-controlnet-v3"}),
    ],
    "model_patches": [
        (of(f"{PATCHES}QwenImageBlockWiseControlNet"),
         {"BF16": "qwen_image_canny_diffsynth_controlnet"}),
        (of(f"{PATCHES}SigLIPMultiFeatProjModel"), {"BF16": "uso-flux1-projector-v1"}),
        (of("lumina.controlnet:ZImage_Control"), {"BF16": "Z-Image-Turbo-Fun-Controlnet-Union"}),
        (("anima_lllite", 3), {"BF16": "anima-lllite-any-test-like-v2 anima-lllite-depth-1"}),
        (("anima_lllite", 4), {"BF16": "anima-lllite-inpainting-v2"}),
    ],
    "text_encoders": [
        (("llama", "Mistral3Small24B", 30), {"BF16": "mistral_3_small_flux2_bf16",
                                             SCALED: "mistral_3_small_flux2_fp8"}),
        (("llama", "Ministral3_3B"), {"BF16": "ministral-3-3b ernie-image-prompt-enhancer"}),
        (("llama", "Qwen3_4B"), {"BF16": "qwen_3_4b", SCALED: "qwen_3_4b_fp8_mixed"}),
        (("qwen3_vl", "qwen35_4b", "qwen35", "Qwen35"), {"BF16": "qwen3.5_4b_bf16"}),
        (("llama", "Gemma2_2B"), {"BF16": "gemma_2_2b_it_elm_bf16",
                                  SCALED: "gemma_2_2b_it_elm_fp8_scaled"}),
        (("llama", "Gemma3_4B"), {"BF16": "gemma_3_4b_it_bf16"}),
        (("llama", "Gemma3_12B"), {"BF16": "gemma_3_12B_it"}),
        (("llama", "Gemma4_E2B", 0, "gemma4"), {INT8: "gemma4_e2b_it_int8_convrot"}),
        (("llama", "Gemma4_E4B", 0, "gemma4"), {SCALED: "gemma4_e4b_it_fp8_scaled"}),
        (("gpt_oss",), {NVFP4: "gpt_oss_20b_nvfp4"}),
        (("llama", "XLMRobertaModel", 0, "jina_clip_2"), {"BF16": "jina_clip_v2_bf16"}),
        (("llama", "MiniMaxQwen3VL", 0, "minimax"), {NVFP4: "qwen3vl_32b_minimax_h3_nvfp4_awq"}),
        (("qwen3_vl", "qwen35_2b", "qwen35", "Qwen35"), {"BF16": "qwen3.5_2b_bf16"}),
        (("llama", "T5GemmaModel", 0, "sa3"), {"BF16": "t5gemma_b_b_ul2"}),
    ],
    "diffusion_models": [
        (of("joyimage.model:JoyImageTransformer3DModel", hidden_size=4096, num_attention_heads=32,
            num_layers=40), {INT8: "joyai_image_edit_int8_convrot"}),
        (of("minimax.model:MiniMaxH3Model", adaln_curve_grid=1025, time_embed_dim=8),
         {INT8: "minimax_h3_fl2va_pruned_int8_convrot minimax_h3_ref2va_pruned_int8_convrot"}),
    ],
    "geometry_estimation": [
        (of("depth_anything_3.model:DepthAnything3Net"), {"F32": "depth_anything_3_mono_large"}),
    ],
    "upscale_models": [(("real_esrgan",), {"F16": "RealESRGAN_x4plus"})],
    "vae": [(("mage_vae",), {"BF16": "mage_flow_vae_bf16"}),
            (of("minimax.vae:MiniMaxH3VideoVAE"), {"F16": "minimax_h3_video_vae_fp16"}),
            (of("minimax.audio_vae:MiniMaxH3AudioVAE"), {"F32": "minimax_h3_audio_vae_fp32"})],
}

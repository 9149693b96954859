"""Published files of image and video models that came with ComfyUI 0.27 to 0.33, by their names.

Like public_single.py; public_models.py joins it to the others.
"""

from typing import Any

from .number_types import SCALED
from .public_classes import DIFFUSION, Made, Part, of, one
from .public_single import chroma


def _lumina(layers: int, text: int, **more: Any) -> Made:
    return of("lumina.model:NextDiT", patch_size=2, in_channels=16, dim=2304, n_layers=layers,
              n_heads=24, n_kv_heads=8, qk_norm=True, cap_feat_dim=text, axes_dims=[32] * 3,
              axes_lens=[300, 512, 512], ffn_dim_multiplier=4.0, **more)


def _void() -> tuple[Part, ...]:
    return one(of("cogvideo.model:CogVideoXTransformer3DModel", num_attention_heads=48,
                  num_layers=42, in_channels=48, patch_size_t=2, patch_bias=False,
                  use_rotary_positional_embeddings=True), "BF16")


HIDREAM_O1 = of("hidream_o1.model:HiDreamO1Transformer")
PIXELS: dict[str, tuple[Part, ...]] = {
    "checkpoints/hidream_o1_image_bf16": (Part(DIFFUSION, HIDREAM_O1, "BF16"),),
    "checkpoints/hidream_o1_image_dev_fp8_scaled": (Part(DIFFUSION, HIDREAM_O1, SCALED),),
    "checkpoints/NetaYumev35_pretrained_all_in_one": (
        Part(DIFFUSION, _lumina(26, 2304), "BF16"), Part("vae.", ("flux_vae",), "BF16"),
        Part("text_encoders.gemma2_2b.transformer.", ("llama", "Gemma2_2B"), "BF16")),
    "diffusion_models/NewBie-Image-Exp0.1-bf16": one(
        _lumina(36, 2560, clip_text_dim=1024), "BF16"),
    "diffusion_models/chroma-radiance-x0": one(chroma(
        "chroma_radiance.model:ChromaRadiance", in_channels=3, out_channels=3, patch_size=16,
        nerf_hidden_size=64, nerf_mlp_ratio=4, nerf_depth=4, nerf_max_freqs=8, nerf_tile_size=512,
        nerf_final_head_type="conv", nerf_embedder_dtype=None, use_x0=False,
        use_sequential_txt_ids=False), "BF16"),
    "diffusion_models/pixeldit_1300m_1024px_bf16": (
        Part("core.", of("pixeldit.model:PixDiT_T2I"), "BF16"),),
    "diffusion_models/pid_flux1_1024_to_4096_4step_bf16": one(
        of("pixeldit.pid:PidNet"), "BF16"),
    "diffusion_models/triposplat_fp16": one(of("triposplat.model:LatentSeqMMFlowModel"), "F16"),
    "diffusion_models/void_pass1": _void(),
    "diffusion_models/void_pass2": _void(),
    "model_patches/wan2.1_infiniteTalk_multi_fp16": one(
        of("comfy_extras.nodes_model_patch:MultiTalkModelPatch"), "F16"),
    "style_models/flux1-redux-dev": one(of("flux.redux:ReduxImageEncoder"), "BF16"),
    "vae/triposplat_vae_decoder_fp16": one(of("triposplat.vae:OctreeGaussianDecoder"), "F16"),
    "vae/wan_alpha_2.1_vae_alpha_channel": one(("wan_vae", 96), "BF16"),
    "vae/wan_alpha_2.1_vae_rgb_channel": one(("wan_vae", 96), "BF16"),
}

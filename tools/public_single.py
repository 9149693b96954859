"""Published files by their names, each made of one class of ComfyUI's.

Like public_models.py, which imports it. The settings are those that ComfyUI's detection
finds in the published files. What is in a quantised file beside its layers is taken as bfloat16,
and each layer as quantised: files that keep some layers ("mixed") are up to 7 % larger.
"""

from collections.abc import Iterator
from typing import Any

from .number_types import INT8, SCALED
from .public_classes import LDM, Made, of
from .public_helpers import HELPERS
from .public_wan import WAN_VIDEO


def _engine(kind: str, regularizer: str, **sizes: Any) -> Made:
    return of("models.autoencoder:AutoencodingEngine",
              regularizer_config={"target": f"{LDM}models.autoencoder.{regularizer}"},
              encoder_config={"target": f"{LDM}{kind}.Encoder", "params": sizes},
              decoder_config={"target": f"{LDM}{kind}.Decoder", "params": sizes})


def _kl(decoder: int = 128, embed: int = 32, **sizes: Any) -> Made:
    plain = {"double_z": True, "z_channels": embed, "resolution": 256, "in_channels": 3,
             "out_ch": 3, "ch": 128, "ch_mult": [1, 2, 4, 4], "num_res_blocks": 2,
             "attn_resolutions": [], "dropout": 0.0, **sizes}
    more = {"decoder_ddconfig": {**plain, "ch": decoder}} if decoder != 128 else {}
    return of("models.autoencoder:AutoencoderKL", ddconfig=plain, embed_dim=embed, **more)


def _flux2(hidden: int, context: int, double: int, single: int, guidance: bool = False) -> Made:
    return of("flux.model:Flux", in_channels=128, out_channels=128, vec_in_dim=None,
              context_in_dim=context, hidden_size=hidden, mlp_ratio=3.0, num_heads=hidden // 128,
              depth=double, depth_single_blocks=single, axes_dim=[32] * 4, theta=2000,
              patch_size=1, qkv_bias=False, guidance_embed=guidance, txt_ids_dims=[3],
              global_modulation=True, mlp_silu_act=True, ops_bias=False)


def _flux_like(double: int, single: int, context: int, **more: Any) -> Made:
    return of("flux.model:Flux", in_channels=16, out_channels=16, vec_in_dim=None,
              context_in_dim=context, hidden_size=3072, mlp_ratio=4.0, num_heads=24, depth=double,
              depth_single_blocks=single, axes_dim=[16, 56, 56], theta=10000, patch_size=2,
              qkv_bias=True, guidance_embed=False, txt_ids_dims=[1, 2], **more)


def chroma(kind: str, **more: Any) -> Made:
    return of(kind, context_in_dim=4096, hidden_size=3072, mlp_ratio=4.0, num_heads=24, depth=19,
              depth_single_blocks=38, axes_dim=[16, 56, 56], theta=10000, qkv_bias=True, in_dim=64,
              out_dim=3072, hidden_dim=5120, n_layers=5, txt_ids_dims=[], vec_in_dim=None,
              **{"in_channels": 64, "out_channels": 64, "patch_size": 2, **more})


def _hunyuan(context: int, hidden: int, double: int, single: int, **more: Any) -> Made:
    sizes = {"in_channels": 16, "out_channels": 16, "vec_in_dim": 768, "patch_size": [1, 2, 2],
             "guidance_embed": True, "byt5": False, "meanflow": False, "vision_in_dim": None,
             "use_cond_type_embedding": False, "meanflow_sum": False, **more}
    return of("hunyuan_video.model:HunyuanVideo", context_in_dim=context, hidden_size=hidden,
              mlp_ratio=4.0, num_heads=hidden // 128, depth=double, depth_single_blocks=single,
              axes_dim=[16, 56, 56], theta=256, qkv_bias=True, **sizes)


def _hunyuan_15() -> Made:
    return _hunyuan(3584, 2048, 54, 0, in_channels=65, out_channels=32, vec_in_dim=None,
                    patch_size=[1, 1, 1], guidance_embed=False, byt5=True, vision_in_dim=1152,
                    use_cond_type_embedding=True, meanflow_sum=False)


def _ace_xl() -> Made:
    return of("ace.ace_step15:AceStepConditionGenerationModel", hidden_size=2560,
              num_dit_layers=32, num_heads=32, intermediate_size=9728)


def _sd3_large() -> Made:
    return of("modules.diffusionmodules.mmdit:MMDiT", input_size=None, in_channels=16,
              patch_size=2, out_channels=16, depth=38, adm_in_channels=2048,
              context_embedder_config={"target": "torch.nn.Linear", "params": {
                  "in_features": 4096, "out_features": 2432}},
              num_patches=36864, pos_embed_max_size=192, qk_norm="rms",
              pos_embed_scaling_factor=None)


def _anima() -> Made:
    return of("anima.model:Anima", max_img_h=240, max_img_w=240, max_frames=128, in_channels=16,
              out_channels=16, patch_spatial=2, patch_temporal=1, model_channels=2048,
              num_blocks=28, num_heads=16, crossattn_emb_channels=1024, pos_emb_cls="rope3d",
              pos_emb_learnable=True, use_adaln_lora=True, adaln_lora_dim=256)


def _kandinsky(**sizes: Any) -> Made:
    return of("kandinsky5.model:Kandinsky5", time_dim=512, **sizes)


def _seedvr(width: int, heads: int, layers: int, **more: Any) -> Made:
    return of("seedvr.model:NaDiT", vid_dim=width, heads=heads, num_layers=layers, norm_eps=1e-5,
              **more)


SD3_LARGE = _sd3_large()
HIDREAM = of("hidream.model:HiDreamImageTransformer2DModel", patch_size=2, in_channels=16,
             out_channels=16, caption_channels=[4096, 4096], axes_dims_rope=[64, 32, 32],
             llama_layers=[*range(32), *[31] * 16])
ACE_15 = of("ace.ace_step15:AceStepConditionGenerationModel")
QWEN = of("qwen_image.model:QwenImageTransformer2DModel")
Z_IMAGE = of("lumina.model:NextDiT", patch_size=2, in_channels=16, dim=3840, n_layers=30,
             n_refiner_layers=2, n_heads=30, n_kv_heads=30, qk_norm=True, cap_feat_dim=2560,
             axes_dims=[32, 48, 48], axes_lens=[1536, 512, 512], rope_theta=256.0,
             ffn_dim_multiplier=8.0 / 3.0, z_image_modulation=True, time_scale=1000.0,
             pad_tokens_multiple=32)
T5_XXL = ("t5", "t5_config_xxl")
LAYERED = of("qwen_image.model:QwenImageTransformer2DModel", use_additional_t_cond=True)
MAGE = of("mage_flow.model:MageFlowTransformer2DModel")
IDEOGRAM = of("ideogram4.model:Ideogram4Transformer2DModel")
BOOGU = of("boogu.model:BooguTransformer2DModel")
KLEIN_4B, KLEIN_9B = _flux2(3072, 7680, 5, 20), _flux2(4096, 12288, 8, 24)
HUNYUAN_VAE = {"block_out_channels": [128, 256, 512, 1024, 1024], "in_channels": 3,
               "out_channels": 3, "num_res_blocks": 2, "ffactor_spatial": 16,
               "ffactor_temporal": 4, "downsample_match_channel": True,
               "upsample_match_channel": True, "z_channels": 32}

# By folder: architecture, then for each number type the files that have it.
SINGLE: dict[str, list[tuple[Made, dict[str, str]]]] = {
    "diffusion_models": [
        (_flux2(6144, 15360, 8, 48, True), {SCALED: "flux2_dev_fp8mixed"}),
        (KLEIN_4B, {SCALED: "flux-2-klein-4b-fp8 flux-2-klein-base-4b-fp8",
                    "BF16": "flux-2-klein-base-4b flux-2-klein-4b"}),
        (KLEIN_9B, {SCALED: "flux-2-klein-9b-fp8 flux-2-klein-base-9b-fp8 flux-2-klein-9b-kv-fp8"}),
        (HIDREAM, {"F8_E4M3": "hidream_i1_dev_fp8 hidream_i1_fast_fp8 hidream_i1_full_fp8",
                   "BF16": "hidream_e1_1_bf16 hidream_e1_full_bf16"}),
        (_anima(), {"BF16": "anima-base-v1.0 anima-preview3-base"}),
        (ACE_15, {"BF16": "acestep_v1.5_turbo"}),
        (_ace_xl(), {"BF16": "acestep_v1.5_xl_base_bf16 acestep_v1.5_xl_sft_bf16 "
                             "acestep_v1.5_xl_turbo_bf16"}),
        (_hunyuan_15(), {"F16": "hunyuanvideo1.5_720p_i2v_fp16 hunyuanvideo1.5_720p_t2v_fp16 "
                                "capybara_v0.1"}),
        (_hunyuan(4096, 3072, 20, 40), {"BF16": "hunyuan_video_t2v_720p_bf16"}),
        (QWEN, {"BF16": "FireRed-Image-Edit-1.1-transformer qwen_image_bf16 "
                        "qwen_image_edit_2511_bf16",
                "F8_E4M3": "qwen_image_fp8_e4m3fn qwen_image_edit_fp8_e4m3fn "
                           "qwen_image_edit_2509_fp8_e4m3fn qwen_image_2512_fp8_e4m3fn",
                SCALED: "qwen_image_edit_2511_fp8mixed",
                INT8: "qwen_image_edit_2511_int8_convrot"}),
        (LAYERED, {"BF16": "qwen_image_layered_bf16 qwen_image_layered_control_bf16"}),
        (Z_IMAGE, {"BF16": "z_image_bf16 z_image_turbo_bf16",
                   INT8: "z_image_int8_convrot z_image_turbo_int8_convrot"}),
        (_kandinsky(), {"BF16": "kandinsky5lite_t2v_sft_5s kandinsky5lite_i2v_5s"}),
        (_kandinsky(model_dim=2560, ff_dim=10240, visual_embed_dim=64, num_visual_blocks=50,
                    axes_dims=[32, 48, 48]),
         {"BF16": "kandinsky5lite_t2i"}),
        (of("omnigen.omnigen2:OmniGen2Transformer2DModel", axes_dim_rope=[40, 40, 40],
            hidden_size=2520, num_attention_heads=21, num_kv_heads=7, num_layers=32,
            text_feat_dim=2048), {"F16": "omnigen2_fp16"}),
        (of("lens.model:LensTransformer2DModel"), {"BF16": "lens_bf16 lens_turbo_bf16"}),
        (of("ernie.model:ErnieImageModel"), {"BF16": "ernie-image ernie-image-turbo"}),
        (of("krea2.model:SingleStreamDiT"), {SCALED: "krea2_turbo_fp8_scaled",
                                            INT8: "krea2_turbo_int8_convrot"}),
        (MAGE, {INT8: "mage_flow_edit_int8_convrot mage_flow_edit_turbo_int8_convrot "
                        "mage_flow_int8_convrot mage_flow_turbo_int8_convrot"}),
        (IDEOGRAM, {SCALED: "ideogram4_fp8_scaled ideogram4_unconditional_fp8_scaled",
                    INT8: "ideogram4_int8_convrot ideogram4_unconditional_int8_convrot"}),
        (BOOGU, {SCALED: "boogu_image_edit_fp8_scaled boogu_image_turbo_fp8_scaled",
                 INT8: "boogu_image_edit_int8_convrot"}),
        (_seedvr(2560, 20, 32, mlp_type="swiglu", vid_out_norm=True),
         {INT8: "seedvr2_3b_int8_convrot"}),
        (_seedvr(3072, 24, 36, mlp_type="normal", mm_layers=36, rope_type="rope3d", rope_dim=64),
         {INT8: "seedvr2_7b_int8_convrot"}),
        (_flux_like(10, 20, 3584), {"BF16": "longcat_image_bf16 longcat_image_edit_bf16"}),
        (_flux_like(6, 27, 2048, yak_mlp=True, txt_norm=True), {"BF16": "ovis_image_bf16"}),
        (chroma("chroma.model:Chroma"), {SCALED: "Chroma1-HD-fp8mixed"}),
        (("flux", True), {"BF16": "flux1-dev", "F8_E4M3": "flux1-dev-fp8",
                          SCALED: "flux1-krea-dev_fp8_scaled flux1-dev-kontext_fp8_scaled"}),
        (("flux", False), {"BF16": "flux1-schnell"}),
        (("flux", True, 32), {"BF16": "flux1-canny-dev"}),
        (("flux", True, 96), {"BF16": "flux1-fill-dev",
                              "F8_E4M3": "flux.1-fill-dev-OneReward-transformer_fp8"}),
        (("lotus_unet",), {"F16": "lotus-depth-d-v1-1"}),
    ],
    "text_encoders": [
        (("llama", "Qwen3_8B"), {SCALED: "qwen_3_8b_fp8mixed"}),
        (("llama", "Qwen3_06B"), {"BF16": "qwen_3_06b_base"}),
        (("llama", "Qwen3_06B_ACE15"), {"BF16": "qwen_0.6b_ace15"}),
        (("llama", "Qwen3_2B_ACE15_lm"), {"BF16": "qwen_1.7b_ace15"}),
        (("llama", "Qwen3_4B_ACE15_lm"), {"BF16": "qwen_4b_ace15"}),
        (("llama", "Qwen25_3B"), {"F16": "qwen_2.5_vl_fp16"}),
        (("llama", "Ovis25_2B"), {"BF16": "ovis_2.5"}),
        (("llama", "Llama2"), {SCALED: "llava_llama3_fp8_scaled"}),
        (("llama", "Llama2", 0, "llama", 128256), {SCALED: "llama_3.1_8b_instruct_fp8_scaled"}),
        (("qwen3_vl", "qwen3vl_4b"), {SCALED: "qwen3vl_4b_fp8_scaled", "BF16": "qwen3vl_4b_bf16"}),
        (("qwen3_vl", "qwen3vl_8b"), {SCALED: "qwen3vl_8b_fp8_scaled",
                                      INT8: "qwen3vl_8b_joyimage_edit_int8_convrot"}),
        (("t5", "byt5_config_small_glyph"), {"F16": "byt5_small_glyphxl_fp16"}),
        (("t5", "t5_config_base"), {"F32": "t5-base"}),
        (T5_XXL, {"F16": "t5xxl_fp16", "F8_E4M3": "t5xxl_fp8_e4m3fn",
                  SCALED: "t5xxl_fp8_e4m3fn_scaled"}),
        (("t5", "umt5_config_xxl"), {"F16": "umt5_xxl_fp16",
                                     SCALED: "umt5_xxl_fp8_e4m3fn_scaled"}),
        (("llama", "Qwen25_7BVLI"), {"BF16": "qwen_2.5_vl_7b",
                                     SCALED: "qwen_2.5_vl_7b_fp8_scaled"}),
        (("clip_text", "sd1_clip_config", 248), {"F16": "clip_l_hidream"}),
        (("clip_text", "clip_config_bigg", 248), {"F16": "clip_g_hidream"}),
        (("clip_text", "clip_config_bigg"), {"F16": "clip_g"}),
    ],
    "clip_vision": [
        (("clip_vision", "clip_vision_siglip_384"), {"F16": "sigclip_vision_patch14_384"}),
        (("clip_vision", "clip_vision_config_g"), {"F16": "clip_vision_g"}),
        (("clip_vision", "clip_vision_config_h"), {"F16": "clip_vision_h"}),
    ],
    "vae": [
        (("flux_vae",), {"F32": "ae"}),
        (("sd15_vae",), {"F32": "vae-ft-mse-840000-ema-pruned"}),
        (("wan_vae", 96), {"BF16": "wan_2.1_vae Wan2_1_VAE_bf16 qwen_image_vae"}),
        (_kl(batch_norm_latent=True), {"F32": "flux2-vae"}),
        (_kl(96, batch_norm_latent=True), {"F32": "full_encoder_small_decoder"}),
        (_engine("hunyuan_video.vae_refiner", "EmptyRegularizer", **HUNYUAN_VAE),
         {"F16": "hunyuanvideo15_vae_fp16"}),
        (_kl(embed=16, conv3d=True, time_compress=4), {"BF16": "hunyuan_video_vae_bf16"}),
        (of("audio.autoencoder:AudioOobleckVAE", channels=128, latent_dim=64,
            c_mults=[1, 2, 4, 8, 16], strides=[2, 4, 4, 6, 10]), {"BF16": "ace_1.5_vae"}),
        (of("wan.vae2_2:WanVAE", dim=160, z_dim=48, dim_mult=[1, 2, 4, 4], num_res_blocks=2,
            attn_scales=[], temperal_downsample=[False, True, True]), {"F16": "wan2.2_vae"}),
        (of("wan.vae:WanVAE", dim=96, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2,
            attn_scales=[], temperal_downsample=[False, True, True], image_channels=4,
            conv_out_channels=4), {"BF16": "qwen_image_layered_vae"}),
        (of("seedvr.vae:VideoAutoencoderKLWrapper"), {"F16": "seedvr2_ema_vae_fp16"}),
        (of("cogvideo.vae:AutoencoderKLCogVideoX", latent_channels=16), {"F16": "cogvideox_vae"}),
    ],
}


def single() -> Iterator[tuple[str, Made, str]]:
    """Each file's place without its ending, its architecture and its number type."""
    for folder, rows in (*SINGLE.items(), ("diffusion_models", WAN_VIDEO), *HELPERS.items()):
        for made_by, dtypes in rows:
            for dtype, names in dtypes.items():
                yield from ((f"{folder}/{name}", made_by, dtype) for name in names.split())

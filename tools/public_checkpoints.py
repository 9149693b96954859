"""Published checkpoints, which contain several models, by their names.

Like public_single.py; public_models.py joins it to the others.
"""

from .public_classes import DIFFUSION, LDM, Made, Part, of
from .public_single import ACE_15

ACE = of("ace.model:ACEStepTransformer2DModel", attention_head_dim=128, in_channels=8,
         inner_dim=2560, max_height=16, max_position=32768, max_width=32768, mlp_ratio=2.5,
         num_attention_heads=20, num_layers=24, out_channels=8, patch_size=[16, 1],
         rope_theta=1000000.0, speaker_embedding_dim=512, text_embedding_dim=768,
         ssl_encoder_depths=[8, 8], ssl_latent_dims=[1024, 768], ssl_names=["mert", "m-hubert"],
         lyric_encoder_vocab_size=6693, lyric_hidden_size=1024)
ACE_VAE = of("ace.vae.music_dcae_pipeline:MusicDCAE", source_sample_rate=44100)
ACE_15_VAE = of("audio.autoencoder:AudioOobleckVAE", channels=128, latent_dim=64,
                c_mults=[1, 2, 4, 8, 16], strides=[2, 4, 4, 6, 10])


def _hunyuan_3d(made_by: Made, vision: str, vae: Made) -> tuple[Part, ...]:
    return (Part("model.", made_by, "F16"),
            Part("conditioner.main_image_encoder.model.", ("dino", vision), "F16"),
            Part("vae.", vae, "F16"))


def _hunyuan_3d_2(guidance: bool) -> tuple[Part, ...]:
    return _hunyuan_3d(of(
        "hunyuan3d.model:Hunyuan3Dv2", in_channels=64, context_in_dim=1536, hidden_size=1024,
        mlp_ratio=4.0, num_heads=16, depth=16, depth_single_blocks=32, qkv_bias=True,
        guidance_embed=guidance), "dino2_giant", ("hunyuan_3d_decoder",))


def _stable_video() -> tuple[Part, ...]:
    """Stable Video Diffusion XT, whose file is in float32."""
    unet = of("modules.diffusionmodules.openaimodel:UNetModel", image_size=32, in_channels=8,
              out_channels=4, model_channels=320, num_res_blocks=[2] * 4,
              channel_mult=[1, 2, 4, 4], transformer_depth=[1] * 6 + [0] * 2,
              transformer_depth_middle=1, transformer_depth_output=[1] * 9 + [0] * 3,
              context_dim=1024, adm_in_channels=768, num_classes="sequential", num_heads=-1,
              num_head_channels=64, use_spatial_transformer=True, use_linear_in_transformer=True,
              legacy=False, extra_ff_mix_layer=True, use_spatial_context=True,
              merge_strategy="learned_with_images", merge_factor=0.0, video_kernel_size=[3, 1, 1],
              use_temporal_resblock=True, use_temporal_attention=True)
    plain = {"double_z": True, "z_channels": 4, "resolution": 256, "in_channels": 3, "out_ch": 3,
             "ch": 128, "ch_mult": [1, 2, 4, 4], "num_res_blocks": 2, "attn_resolutions": [],
             "dropout": 0.0}
    vae = of("models.autoencoder:AutoencodingEngine",
             regularizer_config={"target": f"{LDM}models.autoencoder.DiagonalGaussianRegularizer"},
             encoder_config={"target": f"{LDM}modules.diffusionmodules.model.Encoder",
                             "params": plain},
             decoder_config={"target": f"{LDM}modules.temporal_ae.VideoDecoder", "params": {
                 **plain, "video_kernel_size": [3, 1, 1], "alpha": 0.0}})
    return (Part(DIFFUSION, unet, "F32"), Part("first_stage_model.", vae, "F32"),
            Part("conditioner.embedders.0.open_clip.model.visual.",
                 ("clip_vision", "clip_vision_config_h"), "F32"))


CHECKPOINTS: dict[str, tuple[Part, ...]] = {
    "ace_step_v1_3.5b": (
        Part(DIFFUSION, ACE, "BF16"), Part("vae.", ACE_VAE, "BF16"),
        Part("text_encoders.umt5base.transformer.", ("t5", "umt5_config_base"), "BF16")),
    "ace_step_1.5_turbo_aio": (
        Part(DIFFUSION, ACE_15, "BF16"), Part("vae.", ACE_15_VAE, "BF16"),
        Part("text_encoders.qwen3_06b.transformer.", ("llama", "Qwen3_06B_ACE15"), "BF16"),
        Part("text_encoders.qwen3_2b.transformer.", ("llama", "Qwen3_2B_ACE15_lm"), "BF16")),
    "svd_xt": _stable_video(),
    "hunyuan3d-dit-v2_fp16": _hunyuan_3d_2(False),
    "hunyuan3d-dit-v2-mv_fp16": _hunyuan_3d_2(False),
    "hunyuan3d-dit-v2-mv-turbo_fp16": _hunyuan_3d_2(True),
    "hunyuan_3d_v2.1": _hunyuan_3d(of("hunyuan3dv2_1.hunyuandit:HunYuanDiTPlain"), "dino2_large",
                                   of("hunyuan3d.vae:ShapeVAE")),
}

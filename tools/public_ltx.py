"""Published files of Lightricks' LTX video models by their names.

Like public_single.py; public_models.py joins it to the others. ComfyUI reads the sizes of these
models off the settings that their files have beside the weights, so that `SETTINGS` has both.
"""

from typing import Any

from .number_types import INT8, NVFP4, SCALED_BF16
from .public_classes import DIFFUSION, Made, Part, of, one

GEMMA_WIDTH = 3840
GEMMA_STATES = 49  # the embeddings and its 48 layers
Config = dict[str, Any]


def _vae_2b(version: int) -> Made:
    return of("lightricks.vae.causal_video_autoencoder:VideoVAE", version=version)


def _ltxv(dtype: str, vae: int) -> tuple[Part, ...]:
    return (Part(DIFFUSION, of("lightricks.model:LTXVModel", num_layers=28, attention_head_dim=64,
                               cross_attention_dim=2048), dtype),
            Part("vae.", _vae_2b(vae), dtype))


def _blocks(layers: list[int], pressed: list[str], wider: list[int], **more: Any) -> list[Any]:
    """Residual blocks and the compressions between them, as the settings of a VAE name them."""
    found: list[Any] = []
    for number, count in enumerate(layers):
        found.append(["res_x", {"num_layers": count}])
        if number < len(pressed):
            found.append([f"compress_{pressed[number]}", {"multiplier": wider[number], **more}])
    return found


def _vae(encoder: list[Any], decoder: list[Any], padding: str) -> Config:
    return {"dims": 3, "in_channels": 3, "out_channels": 3, "latent_channels": 128,
            "encoder_blocks": encoder, "decoder_blocks": decoder, "norm_layer": "pixel_norm",
            "patch_size": 4, "latent_log_var": "uniform", "causal_decoder": False,
            "timestep_conditioning": False, "spatial_padding_mode": padding}


ENCODED = ["space_res", "time_res", "all_res", "all_res"]
VAE_2 = _vae(_blocks([4, 6, 6, 2, 2], ENCODED, [2, 2, 2, 2]),
             _blocks([5, 5, 5, 5], ["all"] * 3, [2] * 3, residual=True), "reflect")
VAE_23 = _vae(_blocks([4, 6, 4, 2, 2], ENCODED, [2, 2, 2, 1]),
              _blocks([4, 6, 4, 2, 2], ["space", "time", "all", "all"], [2, 2, 1, 2]), "zeros")
AUDIO_VAE = {"model": {"params": {"sampling_rate": 16000, "ddconfig": {
    "double_z": True, "mel_bins": 64, "z_channels": 8, "resolution": 256, "in_channels": 2,
    "out_ch": 2, "ch": 128, "ch_mult": [1, 2, 4], "num_res_blocks": 2, "attn_resolutions": [],
    "dropout": 0.0, "mid_block_add_attention": False, "norm_type": "pixel",
    "causality_axis": "height"}}},
    "preprocessing": {"stft": {"filter_length": 1024, "hop_length": 160}}}
VOCODER_2 = {"upsample_rates": [6, 5, 2, 2, 2], "upsample_kernel_sizes": [16, 15, 8, 4, 4],
             "output_sample_rate": 24000}
BIG = {"resblock": "AMP1", "activation": "snakebeta", "use_bias_at_final": False,
       "use_tanh_at_final": False}
VOCODER_23 = {
    "vocoder": {**BIG, "upsample_initial_channel": 1536, "upsample_rates": [5, 2, 2, 2, 2, 2],
                "upsample_kernel_sizes": [11, 4, 4, 4, 4, 4]},
    "bwe": {**BIG, "upsample_initial_channel": 512, "upsample_rates": [6, 5, 2, 2, 2],
            "upsample_kernel_sizes": [12, 11, 4, 4, 4], "hop_length": 80, "n_fft": 512,
            "num_mels": 64, "input_sampling_rate": 16000, "output_sampling_rate": 48000}}
TRANSFORMER_2 = {
    "num_layers": 48, "attention_head_dim": 128, "num_attention_heads": 32,
    "cross_attention_dim": 4096, "audio_attention_head_dim": 64, "audio_num_attention_heads": 32,
    "audio_cross_attention_dim": 2048, "caption_channels": GEMMA_WIDTH, "rope_type": "split",
    "frequencies_precision": "float64", "use_middle_indices_grid": True,
    "av_ca_timestep_scale_multiplier": 1000.0}
TRANSFORMER_23 = {
    **TRANSFORMER_2, "apply_gated_attention": True, "cross_attention_adaln": True,
    "caption_proj_before_connector": True, "caption_projection_first_linear": False,
    "connector_num_layers": 8, "connector_num_attention_heads": 32,
    "connector_attention_head_dim": 128, "audio_connector_num_attention_heads": 32,
    "audio_connector_attention_head_dim": 64, "connector_apply_gated_attention": True}
TRANSFORMER_25 = {**TRANSFORMER_23, "ff_bias": False}


def _audio(vocoder: Config) -> tuple[Made, Config]:
    told = {"audio_vae": AUDIO_VAE, "vocoder": vocoder}
    return ("ltx_audio_vae", of("lightricks.vae.audio_vae:AudioVAE",
                                metadata={"config": told})[2]), told


def _transformer(sizes: Config, **more: Any) -> tuple[Made, Config]:
    return of("lightricks.av_model:LTXAVModel", **sizes, **more), {"transformer": sizes}


def _video(sizes: Config) -> tuple[Made, Config]:
    return (of("lightricks.vae.causal_video_autoencoder:VideoVAE", config=sizes), {"vae": sizes})


def _upscaler(**more: Any) -> tuple[Made, Config]:
    sizes = {"in_channels": 128, "mid_channels": 1024, "dims": 3, **more}
    return of("lightricks.latent_upsampler:LatentUpsampler", **sizes), sizes


def _linear(outputs: int, bias: bool) -> Made:
    return of("torch.nn:Linear", in_features=GEMMA_WIDTH * GEMMA_STATES,
              out_features=outputs, bias=bias)


def _projections(video: int, audio: int) -> tuple[Part, ...]:
    return tuple(Part(f"text_embedding_projection.{kind}_aggregate_embed.", _linear(width, True),
                      "BF16") for kind, width in (("video", video), ("audio", audio)))


LTX_2, LTX_23 = _transformer(TRANSFORMER_2), _transformer(TRANSFORMER_23)
LTX_25 = _transformer(TRANSFORMER_25, use_keyframes_abs_pos_embedding=True)
VIDEO_2, VIDEO_23 = _video(VAE_2), _video(VAE_23)
AUDIO_2, AUDIO_23 = _audio(VOCODER_2), _audio(VOCODER_23)
UPSCALER_2, UPSCALER_23 = _upscaler(rational_resampler=True), _upscaler()
# What ComfyUI reads of a file beside its weights, by what the weights are made of.
SETTINGS: dict[Made, Config] = dict((
    LTX_2, LTX_23, LTX_25, VIDEO_2, VIDEO_23, AUDIO_2, AUDIO_23, UPSCALER_2, UPSCALER_23))
DIFFUSION_VAE = of("lightricks.vae.na_diffusion_decoder:CausalDiffusionVAE")
GEMMA_3, GEMMA_4 = ("llama", "Gemma3_12B"), ("llama", "Gemma4_12B", 0, "gemma4")
PROJECTIONS_23 = _projections(4096, 2048)


def _ltx_2(dtype: str) -> tuple[Part, ...]:
    return (Part(DIFFUSION, LTX_2[0], dtype), Part("vae.", VIDEO_2[0], "BF16"),
            Part("", AUDIO_2[0], "BF16"),
            Part("text_embedding_projection.aggregate_embed.", _linear(GEMMA_WIDTH, False), "BF16"))


def _ltx_23(dtype: str) -> tuple[Part, ...]:
    return (Part(DIFFUSION, LTX_23[0], dtype), Part("vae.", VIDEO_23[0], "BF16"),
            Part("", AUDIO_23[0], "BF16"), *PROJECTIONS_23)


LTX: dict[str, tuple[Part, ...]] = {
    "checkpoints/ltx-video-2b-v0.9": _ltxv("F32", 0),
    "checkpoints/ltx-video-2b-v0.9.5": _ltxv("BF16", 2),
    "checkpoints/ltx-2-19b-dev": _ltx_2("BF16"),
    "checkpoints/ltx-2-19b-distilled": _ltx_2("BF16"),
    "checkpoints/ltx-2-19b-dev-fp8": _ltx_2(SCALED_BF16),
    "checkpoints/ltx-2.3-22b-dev-fp8": _ltx_23(SCALED_BF16),
    "checkpoints/ltx-2.3-22b-distilled-fp8": _ltx_23(SCALED_BF16),
    "latent_upscale_models/ltx-2-spatial-upscaler-x2-1.0": one(UPSCALER_2[0], "BF16"),
    "latent_upscale_models/ltx-2.3-spatial-upscaler-x2-1.1": one(UPSCALER_23[0], "BF16"),
    "latent_upscale_models/ltx-2.5-latent-spatial-upscaler-x2-bf16-1.0":
        one(UPSCALER_23[0], "BF16"),
    "diffusion_models/ltx-2.5-22b-distilled-transformer-comfy-int8-convrot": one(LTX_25[0], INT8),
    "vae/ltx-2.5-video-vae-bf16": one(DIFFUSION_VAE, "BF16"),
    "vae/ltx-2.5-audio-vae-bf16": one(AUDIO_23[0], "BF16"),
    "text_encoders/gemma_3_12B_it_fp4_mixed": one(GEMMA_3, NVFP4),
    "text_encoders/gemma4-12b-with-proj-ltx-2.5-comfy-int8-convrot":
        (Part("", GEMMA_4, INT8), *PROJECTIONS_23),
}

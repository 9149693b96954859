"""Published files of models that make or hear sound, by their names.

Like public_single.py; public_models.py joins it to the others.
"""

from .public_classes import Part, of, one

SECONDS = of("audio.embedders:NumberConditioner", output_dim=768)


def _heard(**more: object) -> tuple[Part, ...]:
    return one(of("comfy.audio_encoders.wav2vec2:Wav2Vec2Model", **more), "F16")


def _stable_audio_3() -> tuple[Part, ...]:
    return (
        Part("model.model.", of(
            "audio.dit:AudioDiffusionTransformer", io_channels=256, embed_dim=1536, depth=24,
            num_heads=24, cond_token_dim=768, project_cond_tokens=True, global_cond_dim=768,
            global_cond_type="adaLN", global_cond_shared_embed=True, local_add_cond_dim=257,
            num_memory_tokens=64, norm_type="rms_norm", timestep_features_type="expo",
            attn_kwargs={"qk_norm": "rms", "differential": True}), "F32"),
        Part("pretransform.model.", of("audio.vae_sa3:SA3AudioVAE"), "F32"),
        Part("conditioner.conditioners.seconds_total.", of(
            "audio.embedders:NumberConditioner", output_dim=768,
            fourier_features_type="expo"), "F32"))


HEARD: dict[str, tuple[Part, ...]] = {
    "checkpoints/stable_audio_3_medium": _stable_audio_3(),
    "checkpoints/stable_audio_3_medium_base": _stable_audio_3(),
    "checkpoints/stable-audio-open-1.0": (
        Part("model.model.", of("audio.dit:AudioDiffusionTransformer", global_cond_dim=1536),
             "F32"),
        Part("pretransform.model.", of("audio.autoencoder:AudioOobleckVAE"), "F32"),
        Part("conditioner.conditioners.seconds_start.", SECONDS, "F32"),
        Part("conditioner.conditioners.seconds_total.", SECONDS, "F32")),
    "audio_encoders/whisper_large_v3_fp16": (
        Part("model.", of("comfy.audio_encoders.whisper:WhisperLargeV3"), "F16"),),
    "audio_encoders/wav2vec2_large_english_fp16": _heard(),
    "audio_encoders/wav2vec2-chinese-base_fp16": _heard(
        embed_dim=768, num_heads=12, num_layers=12, conv_norm=False, conv_bias=False,
        do_normalize=False, do_stable_layer_norm=False),
    "diffusion_models/minimax_music3_dit_fp16": one(
        of("minimax_music.dit:MiniMaxMusic3DiT"), "F16"),
    "vae/minimax_music3_dav": one(of("minimax_music.dav:MiniMaxMusic3DAV"), "F16"),
}

"""A real diffusers pipeline with tiny random components, built without any download."""

import json

import torch


def tokenizer_in(folder):
    """A CLIP tokenizer that knows single letters."""
    from transformers import CLIPTokenizer

    words = ["<|startoftext|>", "<|endoftext|>"]
    words += [letter + end for letter in "abcdefghijklmnopqrstuvwxyz" for end in ("", "</w>")]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77
    ), len(words)


def text_encoder(vocabulary_size, width=32):
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=vocabulary_size, hidden_size=width, intermediate_size=width * 2,
            num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=77,
            bos_token_id=0, eos_token_id=1, pad_token_id=1,
        )
    )


def pipeline_in(folder):
    """A StableDiffusionPipeline of about 1 MiB."""
    from diffusers import (
        AutoencoderKL,
        DDIMScheduler,
        StableDiffusionPipeline,
        UNet2DConditionModel,
    )

    torch.manual_seed(0)
    tokenizer, size = tokenizer_in(folder)
    unet = UNet2DConditionModel(
        block_out_channels=(32, 64), layers_per_block=1, sample_size=8, in_channels=4,
        out_channels=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=32,
        norm_num_groups=8,
    )
    vae = AutoencoderKL(
        block_out_channels=[32, 64], in_channels=3, out_channels=3,
        down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2,
        latent_channels=4, norm_num_groups=8,
    )
    return StableDiffusionPipeline(
        vae=vae, text_encoder=text_encoder(size), tokenizer=tokenizer, unet=unet,
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1), safety_checker=None,
        feature_extractor=None, requires_safety_checker=False,
    )

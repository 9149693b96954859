"""Architectures of other libraries, tiny, made from their configurations with random weights."""

import torch

SIZE = 32  # pixels of a side


def _image(channels=3, size=SIZE):
    return torch.rand(1, channels, size, size)


def _text(length=8, words=50):
    return torch.arange(length).unsqueeze(0) % words


def unet():
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        block_out_channels=(32, 64), layers_per_block=1, sample_size=8, cross_attention_dim=32,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), norm_num_groups=8,
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))
    return model, (torch.randn(1, 4, 8, 8), torch.tensor(10), torch.randn(1, 8, 32)), {}


def autoencoder():
    from diffusers import AutoencoderKL

    return AutoencoderKL(block_out_channels=[32, 64], norm_num_groups=8,
                         down_block_types=["DownEncoderBlock2D"] * 2,
                         up_block_types=["UpDecoderBlock2D"] * 2), (_image(),), {}


def flux():
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16,
        num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32,
        axes_dims_rope=(4, 6, 6), guidance_embeds=True)
    return model, (), {
        "hidden_states": torch.randn(1, 16, 16), "encoder_hidden_states": torch.randn(1, 8, 32),
        "pooled_projections": torch.randn(1, 32), "timestep": torch.tensor([0.5]),
        "img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(8, 3),
        "guidance": torch.tensor([3.5])}


def sd3():
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=8, patch_size=2, num_layers=1, attention_head_dim=8, num_attention_heads=4,
        caption_projection_dim=32, joint_attention_dim=32, pooled_projection_dim=64,
        pos_embed_max_size=8)
    return model, (), {
        "hidden_states": torch.randn(1, 16, 8, 8), "encoder_hidden_states": torch.randn(1, 8, 32),
        "pooled_projections": torch.randn(1, 64), "timestep": torch.tensor([500])}


def t5():
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return T5EncoderModel(config), (_text(),), {}


def clip():
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, bos_token_id=0, eos_token_id=1, pad_token_id=1)
    return CLIPTextModel(config), (_text(),), {}


def qwen():
    from transformers import Qwen2Config, Qwen2Model

    config = Qwen2Config(vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2)
    return Qwen2Model(config), (_text(),), {"use_cache": False}


def siglip():
    from transformers import SiglipVisionConfig, SiglipVisionModel

    config = SiglipVisionConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                num_attention_heads=4, image_size=SIZE, patch_size=8)
    return SiglipVisionModel(config), (_image(),), {}


def esrgan():
    from spandrel.architectures.ESRGAN.__arch.RRDB import RRDBNet

    return RRDBNet(in_nc=3, out_nc=3, num_filters=16, num_blocks=1, scale=2), (_image(),), {}


def swinir():
    from spandrel.architectures.SwinIR import SwinIR

    return SwinIR(img_size=16, window_size=8, embed_dim=24, depths=[2], num_heads=[2],
                  upsampler="pixelshuffle", upscale=2), (_image(size=16),), {}


def dat():
    from spandrel.architectures.DAT import DAT

    return DAT(img_size=16, embed_dim=24, depth=[2], num_heads=[2], split_size=[4, 8],
               upsampler="pixelshuffle", upscale=2), (_image(size=16),), {}


def vit():
    import timm

    return timm.create_model("vit_tiny_patch16_224", img_size=SIZE, depth=2, embed_dim=24,
                             num_heads=2, num_classes=5), (_image(),), {}


def convnext():
    import timm

    return timm.create_model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32),
                             num_classes=5), (_image(),), {}


# By the library's and the class's name, as users know them.
ARCHITECTURES = {
    "diffusers UNet2DConditionModel": unet, "diffusers AutoencoderKL": autoencoder,
    "diffusers FluxTransformer2DModel": flux, "diffusers SD3Transformer2DModel": sd3,
    "transformers T5EncoderModel": t5, "transformers CLIPTextModel": clip,
    "transformers Qwen2Model": qwen, "transformers SiglipVisionModel": siglip,
    "spandrel ESRGAN": esrgan, "spandrel SwinIR": swinir, "spandrel DAT": dat,
    "timm VisionTransformer": vit, "timm ConvNeXt": convnext,
}


def first_tensor(value):
    """The first tensor of an output, in whatever its library wraps it."""
    if isinstance(value, torch.Tensor):
        return value
    for name in ("sample", "last_hidden_state"):
        if hasattr(value, name):
            return getattr(value, name)
    return value[0]

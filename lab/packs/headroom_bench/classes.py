"""Diffusion models of the published classes at their real layer sizes, without trained weights."""

import math

import comfy.ldm.flux.model
import comfy.ldm.modules.diffusionmodules.openaimodel
import comfy.ldm.wan.model
import comfy.model_management as mm
import comfy.ops
import comfy.sd
import torch

UNET = comfy.ldm.modules.diffusionmodules.openaimodel.UNetModel
UNET_COMMON = {"image_size": 32, "in_channels": 4, "out_channels": 4, "model_channels": 320,
               "use_spatial_transformer": True, "legacy": False}
SD15 = {**UNET_COMMON, "num_res_blocks": [2, 2, 2, 2], "channel_mult": [1, 2, 4, 4],
        "transformer_depth": [1, 1, 1, 1, 1, 1, 0, 0], "transformer_depth_middle": 1,
        "transformer_depth_output": [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0], "context_dim": 768,
        "num_heads": 8}
SDXL = {**UNET_COMMON, "num_res_blocks": [2, 2, 2], "channel_mult": [1, 2, 4],
        "transformer_depth": [0, 0, 2, 2, 10, 10], "transformer_depth_middle": 10,
        "transformer_depth_output": [0, 0, 0, 2, 2, 2, 10, 10, 10], "context_dim": 2048,
        "num_head_channels": 64, "use_linear_in_transformer": True, "num_classes": "sequential",
        "adm_in_channels": 2816}
FLUX = {"in_channels": 16, "out_channels": 16, "patch_size": 2, "vec_in_dim": 768,
        "context_in_dim": 4096, "hidden_size": 3072, "mlp_ratio": 4.0, "num_heads": 24,
        "axes_dim": [16, 56, 56], "theta": 10000, "qkv_bias": True, "guidance_embed": True}
WAN = {"model_type": "t2v", "dim": 5120, "ffn_dim": 13824, "freq_dim": 256, "text_dim": 4096,
       "out_dim": 16, "num_heads": 40}

# Latent channels and side, text length and width, width of the pooled text.
SHAPES = {"SD1.5": (4, 64, 77, 768, 0), "SDXL": (4, 128, 77, 2048, 1280),
          "Flux": (16, 128, 256, 4096, 768), "Wan": (16, 60, 512, 4096, 0)}
WAN_FRAMES = 21  # of the latent: 81 frames of video
DRAWN = 1_000_003  # random numbers that every weight repeats; a prime: no two rows are equal


def network(kind):
    """The bare network on the meta device; only its names and shapes are used."""
    common = {"device": "meta", "dtype": torch.bfloat16,
              "operations": comfy.ops.disable_weight_init}
    if kind == "SD1.5":
        return UNET(**SD15, **common)
    if kind == "SDXL":
        return UNET(**SDXL, **common)
    if kind == "Flux":
        blocks = {"depth": 19, "depth_single_blocks": 38}
        if "txt_ids_dims" in comfy.ldm.flux.model.FluxParams.__dataclass_fields__:
            blocks["txt_ids_dims"] = []  # newer hosts ask for it; Flux.1 has none
        return comfy.ldm.flux.model.Flux(**FLUX, **blocks, **common)
    return comfy.ldm.wan.model.WanModel(**WAN, num_layers=40, **common)


def random_model(kind):
    """A MODEL with random weights that lie in RAM."""
    generator = torch.Generator(device=mm.get_torch_device()).manual_seed(1)
    noise = torch.randn(DRAWN, generator=generator, device=generator.device)
    weights = {
        name: _weight(value.shape, noise)
        for name, value in network(kind).state_dict().items()
    }
    return comfy.sd.load_diffusion_model_state_dict(weights)


def zero_model(kind):
    """A MODEL whose weights are zeros that take no RAM, for a simulated GPU without arithmetic."""
    from simgpu.shapes import unwritten_weights, zeros

    weights = {
        name: zeros(value.shape, torch.bfloat16)
        for name, value in network(kind).state_dict().items()
    }
    with unwritten_weights():
        return comfy.sd.load_diffusion_model_state_dict(weights)


def _weight(shape, noise):
    if len(shape) < 2:
        return torch.zeros(shape, dtype=torch.bfloat16) if shape else torch.tensor(1.0)
    values = (noise / math.prod(shape[1:]) ** 0.5).to(torch.bfloat16).cpu()
    count = math.prod(shape)
    return values.repeat(-(-count // DRAWN))[:count].reshape(shape)


def conditioning(kind):
    """What a text encoder would give."""
    _, _, length, width, pooled = SHAPES[kind]
    generator = torch.Generator().manual_seed(2)
    extra = {"pooled_output": torch.randn(1, pooled, generator=generator)} if pooled else {}
    return [[torch.randn(1, length, width, generator=generator), extra]]


def latent(kind, batch, divide):
    """An empty latent of the class's usual size, each side divided by `divide`."""
    channels, side, *_ = SHAPES[kind]
    side = max(side // divide // 2 * 2, 8)
    if kind == "Wan":
        return {"samples": torch.zeros(batch, channels, max(WAN_FRAMES // divide, 1),
                                       side, side * 104 // 60 // 2 * 2)}
    return {"samples": torch.zeros(batch, channels, side, side)}

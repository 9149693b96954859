"""Names and shapes of weights by ComfyUI's own classes, which are built without memory.

    python tools/architectures.py COMFYUI '[["sd15_unet", 2], ["clip_l"]]'

Prints one line of JSON: for each wanted architecture a dict from weight name to shape, in the
naming of published files. A process of its own, because importing ComfyUI fills `sys.modules` with
names such as `nodes` and `utils`. Widths that ComfyUI's detection needs to recognise a model are
constants here; the depth is the caller's.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Shapes = dict[str, tuple[int, ...]]
CLIP_LAYERS, CLIP_WIDTH = 12, 768
VAE = {"double_z": True, "resolution": 256, "in_channels": 3, "out_ch": 3, "ch": 128,
       "ch_mult": [1, 2, 4, 4], "num_res_blocks": 2, "attn_resolutions": [], "dropout": 0.0}
ENGINE = "comfy.ldm.modules.diffusionmodules.model"


def _built(module: Any) -> Shapes:
    """RuntimeError where this process makes layers without weights, as dynamic VRAM does."""
    import torch

    if any(isinstance(layer, torch.nn.Linear | torch.nn.Embedding) and layer.weight is None
           for layer in module.modules()):
        raise RuntimeError("layers are made without weights here")
    return {name: tuple(weight.shape) for name, weight in module.state_dict().items()}


def _ops() -> dict[str, Any]:
    import comfy.ops

    return {"device": "meta", "operations": comfy.ops.disable_weight_init}


def _sd(levels: int, **more: Any) -> dict[str, Any]:
    """What the UNets and ControlNets of Stable Diffusion have in common; 320 is their width."""
    return {
        "image_size": 32, "in_channels": 4, "model_channels": 320, "num_heads": 8,
        "channel_mult": [1] * levels, "use_spatial_transformer": True, "legacy": False,
        **_ops(), **more,
    }


def _one_block(levels: int) -> dict[str, Any]:
    """SD1.5 with one residual and one transformer block a level."""
    return _sd(levels, num_res_blocks=[1] * levels, transformer_depth=[1] * levels,
               transformer_depth_middle=1, context_dim=CLIP_WIDTH)


def sd15_unet(levels: int) -> Shapes:
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel

    return _built(UNetModel(**_one_block(levels), out_channels=4,
                            transformer_depth_output=[1] * 2 * levels))


def sd15_controlnet(levels: int) -> Shapes:
    """The ControlNet that fits `sd15_unet(levels)`."""
    from comfy.cldm.cldm import ControlNet

    return _built(ControlNet(**_one_block(levels), hint_channels=3))


def sdxl_unet() -> Shapes:
    """A UNet that ComfyUI takes for SDXL by its depths; about 220 million weights."""
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel

    return _built(UNetModel(**_sd(
        3, out_channels=4, num_res_blocks=[2, 2, 2], transformer_depth=[0, 0, 2, 2, 10, 10],
        transformer_depth_output=[0, 0, 0, 2, 2, 2, 10, 10, 10], transformer_depth_middle=10,
        context_dim=2048, num_classes="sequential", adm_in_channels=2816,
        use_linear_in_transformer=True,
    )))


def sd15_lora(levels: int, rank: int) -> Shapes:
    """A LoRA on every attention projection of `sd15_unet(levels)` and of CLIP-L."""
    wanted = {
        "lora_unet_" + name.removesuffix(".weight").replace(".", "_"): shape
        for name, shape in sd15_unet(levels).items()
        if ".attn" in name and name.endswith(".weight")
    } | {
        f"lora_te_text_model_encoder_layers_{layer}_self_attn_{part}_proj": (CLIP_WIDTH, CLIP_WIDTH)
        for layer in range(CLIP_LAYERS) for part in ("q", "k", "v", "out")
    }
    shapes: Shapes = {}
    for key, (height, width) in wanted.items():
        shapes |= {f"{key}.lora_up.weight": (height, rank), f"{key}.alpha": (),
                   f"{key}.lora_down.weight": (rank, width)}
    return shapes


def clip_l() -> Shapes:
    """CLIP-L, whole, as in a checkpoint: without the projection, which SD1.5 does not use.
    """
    import comfy.clip_model
    import comfy.sd1_clip

    config = Path(comfy.sd1_clip.__file__).with_name("sd1_clip_config.json")
    model = comfy.clip_model.CLIPTextModel(json.loads(config.read_text()), None, **_ops())
    return _built(model.text_model)


def sd15_vae() -> Shapes:
    from comfy.ldm.models.autoencoder import AutoencoderKL

    return _built(AutoencoderKL(ddconfig={**VAE, "z_channels": 4}, embed_dim=4))


def flux_vae() -> Shapes:
    from comfy.ldm.models.autoencoder import AutoencodingEngine

    params = {**VAE, "z_channels": 16}
    return _built(AutoencodingEngine(
        regularizer_config={
            "target": "comfy.ldm.models.autoencoder.DiagonalGaussianRegularizer"},
        encoder_config={"target": f"{ENGINE}.Encoder", "params": params},
        decoder_config={"target": f"{ENGINE}.Decoder", "params": params},
    ))


def taesd(part: str = "") -> Shapes:
    """The tiny VAE of SD1.5, as a checkpoint can carry it, or one part of it as its own file."""
    from comfy.taesd.taesd import TAESD

    shapes = _built(TAESD(latent_channels=4))
    return {name.removeprefix(part): shapes[name] for name in shapes if name.startswith(part)}


def compact_upscaler(width: int, layers: int, scale: int) -> Shapes:
    """The "Compact" super-resolution network that spandrel detects, with `layers` inner layers."""
    from torch import nn

    body = []
    for inputs in (3, *[width] * layers):
        body += [nn.Conv2d(inputs, width, 3), nn.PReLU(width)]
    return _built(nn.ModuleDict({"body": nn.Sequential(*body, nn.Conv2d(width, 3 * scale**2, 3))}))


def _flux(kind: Any, double_blocks: int, **others: Any) -> Shapes:
    """Flux, by default without single blocks; about 340 million weights a double block."""
    from comfy.ldm.flux.model import FluxParams

    wanted = {
        "in_channels": 16, "out_channels": 16, "vec_in_dim": 768, "context_in_dim": 4096,
        "hidden_size": 3072, "mlp_ratio": 4.0, "num_heads": 24, "depth": double_blocks,
        "depth_single_blocks": 0, "axes_dim": [16, 56, 56], "theta": 10000, "patch_size": 2,
        "qkv_bias": True, "guidance_embed": True, "txt_ids_dims": [], **others,
    }
    known = {field.name for field in dataclasses.fields(FluxParams)}
    params = {name: value for name, value in wanted.items() if name in known}
    return _as_published(kind(**params, **_ops()))


def _as_published(model: Any) -> Shapes:
    """Newer ComfyUIs rename these when they load a file."""
    return {name.replace("_norm.weight", "_norm.scale"): shape
            for name, shape in _built(model).items()}


def flux(double_blocks: int) -> Shapes:
    from comfy.ldm.flux.model import Flux

    return _flux(Flux, double_blocks)


def flux_controlnet(double_blocks: int) -> Shapes:
    """A ControlNet in the XLabs format, which looks at the picture itself."""
    from comfy.ldm.flux.controlnet import ControlNetFlux

    return _flux(ControlNetFlux, double_blocks)


def wan(heads: int, layers: int) -> Shapes:
    """A text-to-video transformer of Wan 2.1, `heads` times 128 wide."""
    from comfy.ldm.wan.model import WanModel

    width = 128 * heads
    return _built(WanModel(model_type="t2v", dim=width, ffn_dim=4 * width, num_heads=heads,
                           num_layers=layers, **_ops()))


def wan_vae(width: int) -> Shapes:
    """The video VAE; the published one is 96 wide."""
    from comfy.ldm.wan.vae import WanVAE

    return _built(WanVAE(dim=width, z_dim=16, temperal_downsample=[False, True, True]))


def one_number() -> Shapes:
    """For a loader that only looks whether its file is there."""
    return {"stand_in": (1,)}


def main(comfyui: str, wanted: Sequence[Sequence[Any]], known: Mapping[str, Any]) -> None:
    """Print the shapes of the wanted ones among the `known` functions."""
    sys.path[0] = comfyui  # in the place of this folder, whose modules would hide ComfyUI's
    sys.argv[1:] = ["--cpu"]
    import comfy.options

    comfy.options.enable_args_parsing()
    import torch

    with torch.device("meta"):
        print(json.dumps([known[name](*args) for name, *args in wanted]))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), globals())

"""Names and shapes of weights of published models at their real sizes, by ComfyUI's own classes.

    python tools/public_architectures.py COMFYUI '[["sdxl_unet"], ["t5", "t5_config_xxl"]]'

Like architectures.py, but with the sizes of the published files. What ComfyUI
itself fixes (text encoders) is read from it; the other numbers are those that its detection finds
in the published files.
"""

import importlib
import inspect
import json
import re
import sys
from functools import cache
from typing import Any

from architectures import (  # noqa: F401 - by name
    _as_published,
    _built,
    _flux,
    _ops,
    _sd,
    clip_l,
    flux_controlnet,
    flux_vae,
    main,
    one_number,
    sd15_vae,
    wan_vae,
)
from public_encoders import (  # noqa: F401 - asked for by name
    clip_g,
    clip_text,
    clip_vision,
    dino,
    dino_3,
    gpt_oss,
    llama,
    open_clip,
    qwen3_vl,
    t5,
)

Shapes = dict[str, tuple[int, ...]]
SD15 = {"num_res_blocks": [2] * 4, "transformer_depth": [1] * 6 + [0] * 2,
        "transformer_depth_middle": 1, "context_dim": 768}
SDXL = {"num_res_blocks": [2] * 3, "transformer_depth": [0, 0, 2, 2, 10, 10],
        "transformer_depth_middle": 10, "context_dim": 2048, "num_classes": "sequential",
        "adm_in_channels": 2816, "use_linear_in_transformer": True, "num_head_channels": 64,
        "num_heads": -1, "channel_mult": [1, 2, 4]}
SD15_LEVELS = [1, 2, 4, 4]


def sd15_unet(inputs: int = 4) -> Shapes:
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel

    return _built(UNetModel(**_sd(
        4, **{**SD15, "channel_mult": SD15_LEVELS, "in_channels": inputs}, out_channels=4,
        transformer_depth_output=[1] * 9 + [0] * 3)))


def sd15_controlnet() -> Shapes:
    from comfy.cldm.cldm import ControlNet

    return _built(ControlNet(**_sd(4, **{**SD15, "channel_mult": SD15_LEVELS}, hint_channels=3)))


def sdxl_unet() -> Shapes:
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel

    return _built(UNetModel(**_sd(
        3, **SDXL, out_channels=4, transformer_depth_output=[0, 0, 0, 2, 2, 2, 10, 10, 10])))


def sdxl_refiner_unet() -> Shapes:
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel

    return _built(UNetModel(**_sd(
        4, **{**SDXL, "model_channels": 384, "channel_mult": SD15_LEVELS, "num_res_blocks": [2] * 4,
              "transformer_depth": [0, 0, 4, 4, 4, 4, 0, 0], "transformer_depth_middle": 4,
              "context_dim": 1280, "adm_in_channels": 2560},
        out_channels=4, transformer_depth_output=[0, 0, 0, 4, 4, 4, 4, 4, 4, 0, 0, 0])))


def lotus_unet(heatmaps: bool = False) -> Shapes:
    """Lotus, and SDPose, whose output is heatmaps.

    The UNet of Stable Diffusion 2 that takes its task as a vector of four.
    """
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel

    return _built(UNetModel(**_sd(
        4, **{**SD15, "channel_mult": SD15_LEVELS, "context_dim": 1024, "num_heads": -1},
        num_head_channels=64, use_linear_in_transformer=True, num_classes="sequential",
        adm_in_channels=4, out_channels=4, transformer_depth_output=[1] * 9 + [0] * 3,
        **({"heatmap_head": True} if heatmaps else {}))))


def raft_large() -> Shapes:
    from torchvision.models import optical_flow

    return _built(optical_flow.raft_large())


def mage_vae() -> Shapes:
    """Mage's VAE in the names of its file."""
    made = of_class("comfy.ldm.mage_flow.vae:MageVAE")
    return {re.sub("^decoder_model", "pipeline", re.sub("^dconv", "student.dconv", name)): shape
            for name, shape in made.items()}


def hunyuan_3d_decoder() -> Shapes:
    """The VAE of Hunyuan3D 2.0, whose files have no encoder."""
    made = of_class("comfy.ldm.hunyuan3d.vae:ShapeVAE")
    return {name: shape for name, shape in made.items() if not name.startswith("encoder.")}


def ltx_audio_vae(settings: str) -> Shapes:
    """The VAE and the vocoder of LTX in the names of its files."""
    made = of_class("comfy.ldm.lightricks.vae.audio_vae:AudioVAE", settings)
    return {re.sub("^autoencoder", "audio_vae", name): shape for name, shape in made.items()}


@cache  # asked for again by `recognised_as`
def of_class(path: str, settings: str = "{}") -> Shapes:
    """A class of ComfyUI or PyTorch by "module:Class", made with these settings, a JSON object.

    What it does not take of the device and the layers to use is left out, and a switch that is off
    and that an older ComfyUI does not know.
    """
    module, _, name = path.partition(":")
    import torch

    kind = getattr(importlib.import_module(module), name)
    given = json.loads(settings)
    params = getattr(sys.modules[module], f"{name}Params", None)
    if params is not None:
        known = inspect.signature(params).parameters
        given = {key: value for key, value in given.items() if value or key in known}
    own = inspect.signature(kind).parameters
    takes = [key for one in kind.__mro__[:2] for key in inspect.signature(one).parameters]
    ops = {key: value for key, value in _ops().items() if key in takes}
    if "dtype" in own and own["dtype"].default is inspect.Parameter.empty:
        ops["dtype"] = None
    for device in ("meta", "cpu"):  # the second for a class that reads its own small tables
        try:
            with torch.device("cpu" if ops else device):
                made = kind(**given,
                            **{**ops, **({"device": device} if "device" in ops else {})})
            return _as_published(made) if ".ldm.flux." in module else _built(made)
        except RuntimeError:
            if device == "cpu":
                raise
    raise AssertionError("one of the two returns or raises")


def flux(guidance: bool = True, inputs: int = 16) -> Shapes:
    """Flux.1: 19 double and 38 single blocks."""
    from comfy.ldm.flux.model import Flux

    return _flux(Flux, 19, depth_single_blocks=38, guidance_embed=guidance, in_channels=inputs)


def real_esrgan(blocks: int = 23, width: int = 64, grown: int = 32) -> Shapes:
    """The upscaler, which ComfyUI has no class of; in the names of its own files."""
    convolutions = {"conv_first": (width, 3), "conv_body": (width, width),
                    "conv_up1": (width, width), "conv_up2": (width, width),
                    "conv_hr": (width, width), "conv_last": (3, width)}
    for block in range(blocks):
        for dense in (1, 2, 3):
            convolutions |= {
                f"body.{block}.rdb{dense}.conv{place + 1}":
                    (grown if place < 4 else width, width + place * grown) for place in range(5)}
    return {f"{name}.weight": (*sides, 3, 3) for name, sides in convolutions.items()} | {
        f"{name}.bias": sides[:1] for name, sides in convolutions.items()}


def anima_lllite(inputs: int) -> Shapes:
    """A LLLite of Anima, as large as the largest; its class reads its sizes off a file."""
    import torch
    from comfy.ldm.anima.lllite import AnimaLLLite

    sizes = {"conv1": (64, inputs), "conv3": (128,), "proj": (64,), "resblocks.3.conv1": ()}
    file = {f"lllite_conditioning1.{name}": size for name, size in sizes.items()}
    for block in range(28):
        for layer in ("self_attn_q_proj", "self_attn_k_proj", "self_attn_v_proj", "mlp_layer1"):
            name = f"lllite_dit_blocks_{block}_{layer}"
            file |= {f"{name}.down": (64, 2048), f"{name}.cond_to_film": (128, 64)}
    return _built(AnimaLLLite({f"{name}.weight": torch.empty(size, device="meta")
                               for name, size in file.items()}, None, **_ops()))


def recognised_as(name: str, *arguments: Any) -> str:
    """What ComfyUI's detection takes a diffusion model of this module for; "" for nothing."""
    import torch
    from comfy.model_detection import model_config_from_unet

    weights = {key: torch.empty(shape, device="meta")
               for key, shape in globals()[name](*arguments).items()}
    found = model_config_from_unet(weights, "")
    return type(found).__name__ if found else ""


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), globals())

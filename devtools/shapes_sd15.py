"""Names and shapes of the weights of Stable Diffusion 1.5 class models.

Every function returns a dict from weight name to shape, in the naming of the original checkpoint
files, which is also the one that ComfyUI detects. Widths that ComfyUI's detection or its text
encoder configuration fix are constants; the depth is the caller's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

Shape = tuple[int, ...]
Shapes = dict[str, Shape]

CHANNELS = 320  # ComfyUI recognises SD1.5 by this width
CONTEXT = 768  # the width of CLIP-L
CLIP_LAYERS = 12
TIME = 4 * CHANNELS
LATENT = 4


def prefixed(prefix: str, shapes: Shapes) -> Shapes:
    return {prefix + name: shape for name, shape in shapes.items()}


def affine(width: int) -> Shapes:
    """A normalisation layer."""
    return {"weight": (width,), "bias": (width,)}


def linear(width_in: int, width_out: int, bias: bool = True) -> Shapes:
    weight: Shapes = {"weight": (width_out, width_in)}
    return {**weight, "bias": (width_out,)} if bias else weight


def conv(width_in: int, width_out: int, kernel: int = 3, bias: bool = True) -> Shapes:
    weight: Shapes = {"weight": (width_out, width_in, kernel, kernel)}
    return {**weight, "bias": (width_out,)} if bias else weight


def joined(parts: dict[str, Shapes]) -> Shapes:
    """{"a": {"weight": s}} to {"a.weight": s}."""
    return {f"{name}.{key}": shape for name, part in parts.items() for key, shape in part.items()}


# -- the diffusion model ----------------------------------------------------------------------


def _residual(width_in: int, width_out: int) -> Shapes:
    parts = {
        "in_layers.0": affine(width_in),
        "in_layers.2": conv(width_in, width_out),
        "emb_layers.1": linear(TIME, width_out),
        "out_layers.0": affine(width_out),
        "out_layers.3": conv(width_out, width_out),
    }
    if width_in != width_out:
        parts["skip_connection"] = conv(width_in, width_out, 1)
    return joined(parts)


def _attention(width: int, context: int) -> Shapes:
    return joined(
        {
            "to_q": linear(width, width, bias=False),
            "to_k": linear(context, width, bias=False),
            "to_v": linear(context, width, bias=False),
            "to_out.0": linear(width, width),
        }
    )


def _transformer(width: int) -> Shapes:
    block = {
        "attn1": _attention(width, width),
        "attn2": _attention(width, CONTEXT),
        "ff.net.0.proj": linear(width, 8 * width),  # gated: twice the inner width
        "ff.net.2": linear(4 * width, width),
        "norm1": affine(width),
        "norm2": affine(width),
        "norm3": affine(width),
    }
    return joined(
        {
            "norm": affine(width),
            "proj_in": conv(width, width, 1),
            "transformer_blocks.0": joined(block),
            "proj_out": conv(width, width, 1),
        }
    )


def _encoder(multipliers: Sequence[int]) -> tuple[dict[str, Shapes], list[int]]:
    """The downward half with one residual and one transformer block a level, and its widths."""
    parts = {"input_blocks.0.0": conv(LATENT, CHANNELS)}
    widths = [CHANNELS]
    for level, multiplier in enumerate(multipliers):
        width = multiplier * CHANNELS
        parts[f"input_blocks.{len(widths)}.0"] = _residual(widths[-1], width)
        parts[f"input_blocks.{len(widths)}.1"] = _transformer(width)
        widths.append(width)
        if level < len(multipliers) - 1:
            parts[f"input_blocks.{len(widths)}.0.op"] = conv(width, width)
            widths.append(width)
    return parts, widths


def _trunk(multipliers: Sequence[int]) -> tuple[dict[str, Shapes], list[int]]:
    """Time embedding, downward half and middle: what UNet and ControlNet have in common."""
    parts, widths = _encoder(multipliers)
    parts["time_embed.0"] = linear(CHANNELS, TIME)
    parts["time_embed.2"] = linear(TIME, TIME)
    parts["middle_block.0"] = _residual(widths[-1], widths[-1])
    parts["middle_block.1"] = _transformer(widths[-1])
    parts["middle_block.2"] = _residual(widths[-1], widths[-1])
    return parts, widths


def unet(multipliers: Sequence[int]) -> Shapes:
    """A UNet with one residual and one transformer block a level."""
    parts, widths = _trunk(multipliers)
    width, index = widths[-1], 0
    for level in reversed(range(len(multipliers))):
        for position in range(2):
            name = f"output_blocks.{index}"
            parts[f"{name}.0"] = _residual(width + widths.pop(), multipliers[level] * CHANNELS)
            width = multipliers[level] * CHANNELS
            parts[f"{name}.1"] = _transformer(width)
            if level and position == 1:
                parts[f"{name}.2.conv"] = conv(width, width)
            index += 1
    parts["out.0"] = affine(width)
    parts["out.2"] = conv(width, LATENT)
    return joined(parts)


def controlnet(multipliers: Sequence[int]) -> Shapes:
    """The ControlNet that fits `unet(multipliers)`."""
    parts, widths = _trunk(multipliers)
    hint = (3, 16, 16, 32, 32, 96, 96, 256, CHANNELS)
    for index, (width_in, width_out) in enumerate(zip(hint, hint[1:], strict=False)):
        parts[f"input_hint_block.{2 * index}"] = conv(width_in, width_out)
    for index, width in enumerate(widths):
        parts[f"zero_convs.{index}.0"] = conv(width, width, 1)
    parts["middle_block_out.0"] = conv(widths[-1], widths[-1], 1)
    return joined(parts)


def lora(multipliers: Sequence[int], rank: int) -> Shapes:
    """A LoRA on every attention projection of `unet(multipliers)` and of the text encoder."""
    wanted: Shapes = {}
    for name, shape in unet(multipliers).items():
        if ".attn" in name and name.endswith(".weight"):
            wanted["lora_unet_" + name.removesuffix(".weight").replace(".", "_")] = shape
    for layer, part in product(range(CLIP_LAYERS), ("q", "k", "v", "out")):
        wanted[f"lora_te_text_model_encoder_layers_{layer}_self_attn_{part}_proj"] = (
            CONTEXT, CONTEXT)
    shapes: Shapes = {}
    for key, shape in wanted.items():
        shapes[f"{key}.lora_up.weight"] = (shape[0], rank)
        shapes[f"{key}.lora_down.weight"] = (rank, shape[1])
        shapes[f"{key}.alpha"] = ()
    return shapes


# -- the text encoder -------------------------------------------------------------------------


def clip_l() -> Shapes:
    """CLIP-L, whole: ComfyUI builds it from a fixed configuration."""
    parts: dict[str, Shapes] = {
        "embeddings.token_embedding": {"weight": (49408, CONTEXT)},
        "embeddings.position_embedding": {"weight": (77, CONTEXT)},
        "final_layer_norm": affine(CONTEXT),
    }
    for layer in range(CLIP_LAYERS):
        parts[f"encoder.layers.{layer}"] = _clip_layer(CONTEXT)
    return joined(parts)


def _clip_layer(width: int) -> Shapes:
    return joined(
        {
            **{f"self_attn.{kind}_proj": linear(width, width) for kind in ("q", "k", "v", "out")},
            "layer_norm1": affine(width),
            "layer_norm2": affine(width),
            "mlp.fc1": linear(width, 4 * width),
            "mlp.fc2": linear(4 * width, width),
        }
    )

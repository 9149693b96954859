"""Names and shapes of the weights of an SDXL class UNet.

ComfyUI recognises SDXL by its depths and context; the width of every level stays the first one's.
"""

from __future__ import annotations

from .shapes_sd15 import CHANNELS, LATENT, TIME, Shapes, affine, conv, joined, linear

CONTEXT = 2048
POOLED = 2816
DEPTHS = (0, 2, 10)


def _residual(width_in: int) -> Shapes:
    parts = {
        "in_layers.0": affine(width_in),
        "in_layers.2": conv(width_in, CHANNELS),
        "emb_layers.1": linear(TIME, CHANNELS),
        "out_layers.0": affine(CHANNELS),
        "out_layers.3": conv(CHANNELS, CHANNELS),
    }
    if width_in != CHANNELS:
        parts["skip_connection"] = conv(width_in, CHANNELS, 1)
    return joined(parts)


def _attention(context: int) -> Shapes:
    return joined(
        {
            "to_q": linear(CHANNELS, CHANNELS, bias=False),
            "to_k": linear(context, CHANNELS, bias=False),
            "to_v": linear(context, CHANNELS, bias=False),
            "to_out.0": linear(CHANNELS, CHANNELS),
        }
    )


def _transformer(depth: int) -> Shapes:
    block = {
        "attn1": _attention(CHANNELS),
        "attn2": _attention(CONTEXT),
        "ff.net.0.proj": linear(CHANNELS, 8 * CHANNELS),
        "ff.net.2": linear(4 * CHANNELS, CHANNELS),
        "norm1": affine(CHANNELS),
        "norm2": affine(CHANNELS),
        "norm3": affine(CHANNELS),
    }
    blocks = {f"transformer_blocks.{index}": joined(block) for index in range(depth)}
    ends = {"norm": affine(CHANNELS), "proj_in": linear(CHANNELS, CHANNELS),
            "proj_out": linear(CHANNELS, CHANNELS)}
    return joined({**ends, **blocks})


def _down() -> dict[str, Shapes]:
    parts, index = {"input_blocks.0.0": conv(LATENT, CHANNELS)}, 1
    for level, depth in enumerate(DEPTHS):
        for _ in range(2):
            parts[f"input_blocks.{index}.0"] = _residual(CHANNELS)
            if depth:
                parts[f"input_blocks.{index}.1"] = _transformer(depth)
            index += 1
        if level < len(DEPTHS) - 1:
            parts[f"input_blocks.{index}.0.op"] = conv(CHANNELS, CHANNELS)
            index += 1
    return parts


def _up() -> dict[str, Shapes]:
    parts, index = {}, 0
    for level, depth in reversed(list(enumerate(DEPTHS))):
        for position in range(3):
            parts[f"output_blocks.{index}.0"] = _residual(2 * CHANNELS)
            if depth:
                parts[f"output_blocks.{index}.1"] = _transformer(depth)
            if level and position == 2:
                parts[f"output_blocks.{index}.2.conv"] = conv(CHANNELS, CHANNELS)
            index += 1
    return parts


def unet() -> Shapes:
    """A UNet that ComfyUI takes for SDXL; about 220 million weights."""
    middle = {
        "middle_block.0": _residual(CHANNELS),
        "middle_block.1": _transformer(DEPTHS[-1]),
        "middle_block.2": _residual(CHANNELS),
    }
    ends = {
        "time_embed.0": linear(CHANNELS, TIME),
        "time_embed.2": linear(TIME, TIME),
        "label_emb.0.0": linear(POOLED, TIME),
        "label_emb.0.2": linear(TIME, TIME),
        "out.0": affine(CHANNELS),
        "out.2": conv(CHANNELS, LATENT),
    }
    return joined({**_down(), **middle, **_up(), **ends})

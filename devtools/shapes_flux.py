"""Names and shapes of the weights of Flux class models and of the ControlNets made for them.

ComfyUI fixes the width at 24 heads of 128; only the depth is the caller's choice.
"""

from __future__ import annotations

from .shapes_sd15 import Shapes, conv, joined, linear

WIDTH = 3072
HEAD = 128
TEXT, POOLED, FREQUENCIES = 4096, 768, 256
LATENT = 64  # 16 channels of a 2x2 patch
HINT = 16


def _embedder(width_in: int) -> Shapes:
    return joined({"in_layer": linear(width_in, WIDTH), "out_layer": linear(WIDTH, WIDTH)})


def _stream(name: str) -> dict[str, Shapes]:
    scale: Shapes = {"scale": (HEAD,)}
    return {
        f"{name}_mod.lin": linear(WIDTH, 6 * WIDTH),
        f"{name}_attn.qkv": linear(WIDTH, 3 * WIDTH),
        f"{name}_attn.proj": linear(WIDTH, WIDTH),
        f"{name}_attn.norm.query_norm": scale,
        f"{name}_attn.norm.key_norm": scale,
        f"{name}_mlp.0": linear(WIDTH, 4 * WIDTH),
        f"{name}_mlp.2": linear(4 * WIDTH, WIDTH),
    }


def _trunk(double_blocks: int) -> dict[str, Shapes]:
    parts = {
        "img_in": linear(LATENT, WIDTH),
        "txt_in": linear(TEXT, WIDTH),
        "time_in": _embedder(FREQUENCIES),
        "vector_in": _embedder(POOLED),
        "guidance_in": _embedder(FREQUENCIES),
    }
    for block in range(double_blocks):
        parts[f"double_blocks.{block}"] = joined({**_stream("img"), **_stream("txt")})
    return parts


def transformer(double_blocks: int) -> Shapes:
    """A guidance-distilled Flux without single blocks; about 340 million weights a block."""
    parts = _trunk(double_blocks)
    parts["final_layer.linear"] = linear(WIDTH, LATENT)
    parts["final_layer.adaLN_modulation.1"] = linear(WIDTH, 2 * WIDTH)
    return joined(parts)


def controlnet(double_blocks: int) -> Shapes:
    """A ControlNet in the XLabs format, which looks at the picture itself."""
    parts = _trunk(double_blocks)
    parts["pos_embed_input"] = linear(LATENT, WIDTH)
    for index in range(8):
        parts[f"input_hint_block.{2 * index}"] = conv(3 if index == 0 else HINT, HINT)
    for block in range(double_blocks):
        parts[f"controlnet_blocks.{block}"] = linear(WIDTH, WIDTH)
    return joined(parts)

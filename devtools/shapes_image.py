"""Names and shapes of the weights that turn latents into images and images into larger ones."""

from __future__ import annotations

from .shapes_sd15 import LATENT, Shapes, affine, conv, joined

VAE_WIDTHS = (128, 256, 512, 512)
TAESD_WIDTH = 64


# -- the VAE of SD1.5 -------------------------------------------------------------------------


def _residual(width_in: int, width_out: int) -> Shapes:
    parts = {
        "norm1": affine(width_in),
        "conv1": conv(width_in, width_out),
        "norm2": affine(width_out),
        "conv2": conv(width_out, width_out),
    }
    if width_in != width_out:
        parts["nin_shortcut"] = conv(width_in, width_out, 1)
    return joined(parts)


def _middle(width: int) -> dict[str, Shapes]:
    attention = {name: conv(width, width, 1) for name in ("q", "k", "v", "proj_out")}
    return {
        "mid.block_1": _residual(width, width),
        "mid.attn_1": joined({"norm": affine(width), **attention}),
        "mid.block_2": _residual(width, width),
        "norm_out": affine(width),
    }


def _vae_encoder() -> Shapes:
    parts = {"conv_in": conv(3, VAE_WIDTHS[0]), **_middle(VAE_WIDTHS[-1])}
    width_in = VAE_WIDTHS[0]
    for level, width in enumerate(VAE_WIDTHS):
        parts[f"down.{level}.block.0"] = _residual(width_in, width)
        parts[f"down.{level}.block.1"] = _residual(width, width)
        if level < len(VAE_WIDTHS) - 1:
            parts[f"down.{level}.downsample.conv"] = conv(width, width)
        width_in = width
    parts["conv_out"] = conv(VAE_WIDTHS[-1], 2 * LATENT)  # mean and log variance
    return joined(parts)


def _vae_decoder() -> Shapes:
    parts = {"conv_in": conv(LATENT, VAE_WIDTHS[-1]), **_middle(VAE_WIDTHS[-1])}
    parts["norm_out"] = affine(VAE_WIDTHS[0])
    width_in = VAE_WIDTHS[-1]
    for level in reversed(range(len(VAE_WIDTHS))):
        width = VAE_WIDTHS[level]
        for block, width_before in enumerate((width_in, width, width)):
            parts[f"up.{level}.block.{block}"] = _residual(width_before, width)
        if level:
            parts[f"up.{level}.upsample.conv"] = conv(width, width)
        width_in = width
    parts["conv_out"] = conv(VAE_WIDTHS[0], 3)
    return joined(parts)


def vae() -> Shapes:
    """The whole SD1.5 VAE: ComfyUI builds it from a fixed configuration."""
    return joined(
        {
            "encoder": _vae_encoder(),
            "decoder": _vae_decoder(),
            "quant_conv": conv(2 * LATENT, 2 * LATENT, 1),
            "post_quant_conv": conv(LATENT, LATENT, 1),
        }
    )


# -- TAESD, the tiny one ----------------------------------------------------------------------


def _tiny_block() -> Shapes:
    return joined({f"conv.{index}": conv(TAESD_WIDTH, TAESD_WIDTH) for index in (0, 2, 4)})


def _tiny(plain: dict[int, Shapes], resampling: tuple[int, ...], blocks: tuple[int, ...]) -> Shapes:
    parts = {str(index): shapes for index, shapes in plain.items()}
    for index in resampling:
        parts[str(index)] = conv(TAESD_WIDTH, TAESD_WIDTH, bias=False)
    for index in blocks:
        parts[str(index)] = _tiny_block()
    return joined(parts)


def taesd_encoder() -> Shapes:
    ends = {0: conv(3, TAESD_WIDTH), 14: conv(TAESD_WIDTH, LATENT)}
    return _tiny(ends, resampling=(2, 6, 10), blocks=(1, 3, 4, 5, 7, 8, 9, 11, 12, 13))


def taesd_decoder() -> Shapes:
    ends = {1: conv(LATENT, TAESD_WIDTH), 19: conv(TAESD_WIDTH, 3)}
    return _tiny(ends, resampling=(7, 12, 17), blocks=(3, 4, 5, 8, 9, 10, 13, 14, 15, 18))


def taesd() -> Shapes:
    """Encoder and decoder as one VAE, as a checkpoint can carry it."""
    parts = {"taesd_encoder": taesd_encoder(), "taesd_decoder": taesd_decoder()}
    return {**joined(parts), "vae_scale": (), "vae_shift": ()}


# -- an upscaler ------------------------------------------------------------------------------


def compact_upscaler(width: int, layers: int, scale: int) -> Shapes:
    """The "Compact" super-resolution network that spandrel detects, with `layers` inner layers."""
    parts: dict[str, Shapes] = {"body.0": conv(3, width), "body.1": {"weight": (width,)}}
    for layer in range(1, layers + 1):
        parts[f"body.{2 * layer}"] = conv(width, width)
        parts[f"body.{2 * layer + 1}"] = {"weight": (width,)}
    parts[f"body.{2 * layers + 2}"] = conv(width, 3 * scale * scale)
    return joined(parts)

"""Names and shapes of the weights of Wan 2.1 class video models and of their VAE.

ComfyUI reads every width from the weights; a head is 128 wide, the text 4096.
"""

from __future__ import annotations

from .shapes_sd15 import Shapes, affine, joined, linear

HEAD = 128
TEXT = 4096
LATENT = 16
FREQUENCIES = 256
PATCH = (1, 2, 2)
MULTIPLIERS = (1, 2, 4, 4)


# -- the diffusion model ----------------------------------------------------------------------


def _attention(width: int) -> dict[str, Shapes]:
    parts = {name: linear(width, width) for name in ("q", "k", "v", "o")}
    scales: Shapes = {"weight": (width,)}
    return {**parts, "norm_q": scales, "norm_k": scales}


def _block(width: int, inner: int) -> Shapes:
    parts = {
        "self_attn": joined(_attention(width)),
        "cross_attn": joined(_attention(width)),
        "norm3": affine(width),
        "ffn.0": linear(width, inner),
        "ffn.2": linear(inner, width),
    }
    return {**joined(parts), "modulation": (1, 6, width)}


def text_to_video(heads: int, layers: int) -> Shapes:
    """A text-to-video transformer of `layers` blocks, `heads` times 128 wide."""
    width = heads * HEAD
    parts = {
        "patch_embedding": {"weight": (width, LATENT, *PATCH), "bias": (width,)},
        "text_embedding.0": linear(TEXT, width),
        "text_embedding.2": linear(width, width),
        "time_embedding.0": linear(FREQUENCIES, width),
        "time_embedding.2": linear(width, width),
        "time_projection.1": linear(width, 6 * width),
        "head.head": linear(width, LATENT * 4),
    }
    for layer in range(layers):
        parts[f"blocks.{layer}"] = _block(width, 4 * width)
    return {**joined(parts), "head.modulation": (1, 2, width)}


# -- the VAE ----------------------------------------------------------------------------------


def _conv3(width_in: int, width_out: int, kernel: tuple[int, int, int] = (3, 3, 3)) -> Shapes:
    return {"weight": (width_out, width_in, *kernel), "bias": (width_out,)}


def _conv2(width_in: int, width_out: int, kernel: int) -> Shapes:
    return {"weight": (width_out, width_in, kernel, kernel), "bias": (width_out,)}


def _residual(width_in: int, width_out: int) -> Shapes:
    parts: dict[str, Shapes] = {
        "residual.0": {"gamma": (width_in, 1, 1, 1)},
        "residual.2": _conv3(width_in, width_out),
        "residual.3": {"gamma": (width_out, 1, 1, 1)},
        "residual.6": _conv3(width_out, width_out),
    }
    if width_in != width_out:
        parts["shortcut"] = _conv3(width_in, width_out, (1, 1, 1))
    return joined(parts)


def _middle(width: int) -> dict[str, Shapes]:
    attention: dict[str, Shapes] = {
        "norm": {"gamma": (width, 1, 1)},
        "to_qkv": _conv2(width, 3 * width, 1),
        "proj": _conv2(width, width, 1),
    }
    return {
        "middle.0": _residual(width, width),
        "middle.1": joined(attention),
        "middle.2": _residual(width, width),
    }


def _encoder(width: int) -> Shapes:
    widths = [width, *(width * factor for factor in MULTIPLIERS)]
    steps: list[Shapes] = []
    for level, (before, after) in enumerate(zip(widths, widths[1:], strict=False)):
        steps += [_residual(before, after), _residual(after, after)]
        if level < len(MULTIPLIERS) - 1:
            time = {"time_conv": _conv3(after, after, (3, 1, 1))} if level else {}
            steps.append(joined({"resample.1": _conv2(after, after, 3), **time}))
    parts = {"conv1": _conv3(3, width), **_middle(widths[-1])}
    parts.update({f"downsamples.{index}": step for index, step in enumerate(steps)})
    parts["head.0"] = {"gamma": (widths[-1], 1, 1, 1)}
    parts["head.2"] = _conv3(widths[-1], 2 * LATENT)
    return joined(parts)


def _decoder(width: int) -> Shapes:
    widths = [width * factor for factor in (MULTIPLIERS[-1], *reversed(MULTIPLIERS))]
    steps: list[Shapes] = []
    for level, (before, after) in enumerate(zip(widths, widths[1:], strict=False)):
        before = before // 2 if level else before  # the upsampling before it has halved it
        steps += [_residual(before, after), _residual(after, after), _residual(after, after)]
        if level < len(MULTIPLIERS) - 1:
            time = {"time_conv": _conv3(after, 2 * after, (3, 1, 1))} if level < 2 else {}
            steps.append(joined({"resample.1": _conv2(after, after // 2, 3), **time}))
    parts = {"conv1": _conv3(LATENT, widths[0]), **_middle(widths[0])}
    parts.update({f"upsamples.{index}": step for index, step in enumerate(steps)})
    parts["head.0"] = {"gamma": (width, 1, 1, 1)}
    parts["head.2"] = _conv3(width, 3)
    return joined(parts)


def vae(width: int) -> Shapes:
    """The video VAE; the published one is 96 wide."""
    return joined(
        {
            "encoder": _encoder(width),
            "decoder": _decoder(width),
            "conv1": _conv3(2 * LATENT, 2 * LATENT, (1, 1, 1)),
            "conv2": _conv3(LATENT, LATENT, (1, 1, 1)),
        }
    )

"""The picture size of values on ComfyUI's wires: images, masks, latents."""

from collections.abc import Mapping
from typing import Any

from ..base.inputs import attribute, came
from ..base.said import said
from .sorting import Size

LATENT_SCALE = 8

# Pixels of the picture that a latent pixel covers, if channels and dimensions identify the format;
# all other formats of ComfyUI have 8. Key: (channels, dimensions of the tensor). Source:
# comfy/latent_formats.py of ComfyUI 0.33.0 (latent_channels, spacial_downscale_ratio). Without this
# table Size Sorter would sort latents of these models by sizes that are wrong by 2 to 8.
_LATENT_SCALES = {
    (3, 4): 1,  # pixel-space models, such as Chroma Radiance
    (64, 4): 32,  # HunyuanImage 2.1
    (128, 4): 16,  # Flux 2
    (24, 5): 16,  # MiniMax H3
    (32, 5): 16,  # HunyuanVideo 1.5
    (48, 5): 16,  # Wan 2.2
    (128, 5): 32,  # LTX-Video
}


def item_size(item: Any, position: int) -> Size:
    """Return the size in pixels of one item; `position` names it in an error.

    IMAGE [B,H,W,C], MASK [B,H,W] or [H,W], LATENT {"samples": [B,C,H,W] or [B,C,T,H,W]} in
    pixels of its latent format, or anything with a shape. Raises ValueError for an item without a
    width and a height. No pixel is read.
    """
    if issubclass(type(item), Mapping) and "samples" in item:
        size = _latent_size(item)
    else:
        size = _picture_size(item)
    if size is None or size.width < 1 or size.height < 1:
        raise ValueError(said(
            "Size Sorter expects `items` with a width and a height (IMAGE, MASK, LATENT, ...), "
            "but item {position} is {kind}: connect pictures there, or write the sizes into "
            "`sizes`, one line an item.", position=position, kind=_kind(item)))
    return size


def latent_scale(latent: Mapping[str, Any]) -> int:
    """Return how many pixels one latent pixel covers along a side.

    Newer ComfyUIs write it into new latents (`downscale_ratio_spacial`), but the sampler removes it
    again; then channels and dimensions identify the format. 8 if they do not.
    """
    told = latent.get("downscale_ratio_spacial")
    if told:
        return int(told)
    shape = _shape(_first_tensor(latent["samples"]))
    return _LATENT_SCALES.get((shape[1], len(shape)), LATENT_SCALE) if len(shape) > 1 else 1


def _latent_size(latent: Mapping[str, Any]) -> Size | None:
    shape = _shape(_first_tensor(latent["samples"]))
    if len(shape) not in (4, 5) or latent.get("type") == "audio":
        return None  # ACE-Step's sound has four dimensions too
    scale = latent_scale(latent)
    return Size(shape[-1] * scale, shape[-2] * scale)


def _first_tensor(samples: Any) -> Any:
    """Return the picture part of a latent that nests several tensors (picture, then sound)."""
    if attribute(samples, "is_nested") is True and hasattr(samples, "unbind"):
        return samples.unbind()[0]
    return samples


def _picture_size(item: Any) -> Size | None:
    shape = _shape(item)
    if len(shape) >= 3 and shape[-1] <= 4:
        return Size(shape[-2], shape[-3])
    return Size(shape[-1], shape[-2]) if len(shape) >= 2 else None


def _shape(item: Any) -> tuple[int, ...]:
    shape = attribute(item, "shape")
    return tuple(int(side) for side in shape) if isinstance(shape, (tuple, list)) else ()


def _kind(item: Any) -> str:
    if issubclass(type(item), Mapping) and "samples" in item:
        kind, shape = "LATENT", _shape(_first_tensor(item["samples"]))
    else:
        kind, shape = type(item).__name__, _shape(item)
        if not shape:
            return came(item)
    return said("a {kind} of shape {shape}", kind=kind, shape=str(list(shape)))

"""A conditioning in ComfyUI: a list of [tensor, options] pairs."""

from typing import Any

import torch


def is_conditioning(value: Any) -> bool:
    """Return whether `value` has the shape of a CONDITIONING, as samplers expect it."""
    return isinstance(value, list) and bool(value) and all(map(_is_pair, value))


def _is_pair(item: Any) -> bool:
    return (
        isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], torch.Tensor)
        and isinstance(item[1], dict) and all(isinstance(key, str) for key in item[1])
    )

"""Sound in a VAE: which tensors are sound, and in which pieces ComfyUI can compute them.

ComfyUI cuts sound along its time after its own `decode` or `encode` has run out of memory. For some
VAEs only this works: `decode_tiled` and `encode_tiled` take their sound for a picture.
"""

from functools import partial
from typing import Any

import torch

from .copies import class_method

SHORTEST = 32  # latents of a tile along its time
# Networks whose latents have four dimensions, the last of which is time.
_TIME_IS_LAST = ("MusicDCAE",)


def is_sound(vae: Any, value: torch.Tensor) -> bool:
    """Return whether `value`, the input of a decode or an encode, is sound: it has no sides."""
    return value.ndim == 3 or getattr(vae, "output_channels", 3) == 2


def is_cut_by_fallback(vae: Any) -> bool:
    """Return whether only the fallback of ComfyUI's `decode` and `encode` can cut this sound."""
    return type(vae.first_stage_model).__name__ in _TIME_IS_LAST


def shortest(vae: Any, value: torch.Tensor, is_decode: bool) -> int:
    """Return the length of the shortest tile; all lengths are multiples of it. 0: no tiles.

    A tile of a waveform that is no multiple of a latent would leave a gap in the result.
    """
    is_line = value.ndim == 3 and (is_decode or getattr(vae, "latent_dim", 2) == 1)
    can = is_line or is_cut_by_fallback(vae)
    ratio = 1 if is_decode else vae.spacial_compression_encode()
    return SHORTEST * int(ratio) if can and ratio == int(ratio) else 0


def set_tile(work: Any, name: str, tile: int) -> None:
    """Let the fallback of a copy of a VAE cut sound into tiles; `name`: of the method.

    To encode it divides the sizes that it is given by `extra_1d_channel`.
    """
    times = 1 if name == "decode" else work.extra_1d_channel
    cut = f"{name}_tiled_1d"
    vars(work)[cut] = partial(class_method(work, cut), tile_x=tile * times,
                              overlap=tile // 4 * times)

"""The host adapter to the samplers' previews: how they are drawn, and with which model."""

import os
from typing import Any

import comfy.cli_args
import comfy.model_management as mm
import folder_paths

from .types import Previews

BY_MODEL = "taesd"
# TAESD in float32, by torch's allocator: 192, 768 and 3,073 MiB for 512, 1024 and 2048 pixels
# squared. The decoders for video, with other name endings, are other models.
TAESD_PIXEL_BYTES = 768
TAESD_END = "_decoder"


def previews() -> Previews | None:
    """Return how previews are drawn now; None if ComfyUI does not tell.

    The model is looked up as ComfyUI does: without a file for a latent format it draws without it.
    """
    method = getattr(comfy.cli_args.args, "preview_method", None)
    if method is None:
        return None
    name = str(getattr(method, "value", method))
    if name != BY_MODEL:
        return Previews(name, 0)
    formats = [found for loaded in mm.current_loaded_models if loaded.model is not None
               and (found := getattr(loaded.model.model, "latent_format", None)) is not None]
    names = [str(getattr(one, "taesd_decoder_name", None) or TAESD_END) for one in formats]
    is_taesd = bool(names) and all(one.endswith(TAESD_END) for one in names)
    return Previews(name, max(map(_decoder_bytes, formats), default=None),
                    TAESD_PIXEL_BYTES if is_taesd else 0)


def _decoder_bytes(latent_format: Any) -> int:
    """Return the bytes of the decoder's file for a latent format; 0 if there is none."""
    start = getattr(latent_format, "taesd_decoder_name", None)
    names = folder_paths.get_filename_list("vae_approx") if start else []
    path = next((folder_paths.get_full_path("vae_approx", name) for name in names
                 if name.startswith(start)), None)
    try:
        return os.path.getsize(path) if path is not None else 0
    except OSError:
        return 0  # deleted since ComfyUI listed the folder

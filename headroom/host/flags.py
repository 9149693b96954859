"""The host adapter to ComfyUI's command line: the flags that it has, and how previews are drawn."""

import os
from typing import Any

import comfy.cli_args
import comfy.model_management as mm
import folder_paths

from .reserve import has_dynamic_vram
from .types import Previews

CACHE_FLAGS = ("--high-ram", "--cache-lru", "--cache-classic")
BY_MODEL = "taesd"
# TAESD in float32, by torch's allocator: 192, 768 and 3,073 MiB for 512, 1024 and 2048 pixels
# squared. The decoders for video, with other name endings, are other models.
TAESD_PIXEL_BYTES = 768
TAESD_END = "_decoder"


def more_flags() -> frozenset[str]:
    """Return the flags of this ComfyUI, such as "--reserve-vram", that would change something.

    A flag without a value changes nothing if it is set already. If one that leaves VRAM to others
    is set, a smaller number would take it back. Some flags act on dynamic VRAM only.
    """
    values = vars(comfy.cli_args.args)
    names = {name for name, value in values.items() if value is not True}
    if values.get("disable_fast_disk") is True:
        names.discard("fast_disk")  # the other flag overrides it
    names -= {name for name in ("reserve_vram", "vram_headroom") if values.get(name)}
    if not has_dynamic_vram():
        names -= {"vram_headroom", "fast_disk"}
    return frozenset("--" + name.replace("_", "-") for name in names)


def cache_flags() -> tuple[float, str | None]:
    """Return the first value of --cache-ram (0 without it), and which other flag of the same group
    is set, except --cache-none.
    """
    told = getattr(comfy.cli_args.args, "cache_ram", None)
    first = next(iter(told), 0) if isinstance(told, list) else told
    return float(first or 0), next((flag for flag in CACHE_FLAGS if getattr(
        comfy.cli_args.args, flag[2:].replace("-", "_"), None)), None)


def reads_from_disk(patcher: Any) -> bool:
    """Return whether ComfyUI reads a model's weights from its file each time it needs them.

    Dynamic VRAM does so with --fast-disk; newer ComfyUIs also for models on a disk that is fast.
    """
    from .core import is_dynamic  # importing it needs all of ComfyUI

    flags = getattr(comfy.cli_args, "args", None)
    is_wanted = getattr(flags, "fast_disk", False) or getattr(patcher, "fast_disk", False)
    return bool(is_wanted) and not getattr(flags, "disable_fast_disk", False) and (
        is_dynamic(patcher))


def previews() -> Previews | None:
    """Return how previews are drawn now; None if ComfyUI does not tell.

    The model is looked up as ComfyUI does: if a latent format has no file, it draws without one.
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

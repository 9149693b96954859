"""The host adapter to ComfyUI's command line: the flags that it has."""

from typing import Any

import comfy.cli_args

CACHE_FLAGS = ("--high-ram", "--cache-lru", "--cache-classic")


def more_flags() -> frozenset[str]:
    """Return the flags of this ComfyUI, such as "--reserve-vram", that would change something.

    One without a value changes nothing where it is given already.
    """
    values = vars(comfy.cli_args.args)
    names = {name for name, value in values.items() if value is not True}
    if values.get("disable_fast_disk") is True:
        names.discard("fast_disk")  # which it overrides
    return frozenset("--" + name.replace("_", "-") for name in names)


def cache_flags() -> tuple[float, str | None]:
    """Return the (first) value of --cache-ram, 0 where none was given, and which other flag of the
    same group is set but --cache-none.
    """
    told = getattr(comfy.cli_args.args, "cache_ram", None)
    first = next(iter(told), 0) if isinstance(told, list) else told
    return float(first or 0), next((flag for flag in CACHE_FLAGS if getattr(
        comfy.cli_args.args, flag[2:].replace("-", "_"), None)), None)


def reads_from_disk(patcher: Any) -> bool:
    """Return whether ComfyUI reads a model's weights from its file whenever it needs them.

    Dynamic VRAM does so with --fast-disk, and newer hosts for models on a disk that they find fast.
    """
    from .core import is_dynamic  # which needs all of ComfyUI

    flags = getattr(comfy.cli_args, "args", None)
    is_wanted = getattr(flags, "fast_disk", False) or getattr(patcher, "fast_disk", False)
    return bool(is_wanted) and not getattr(flags, "disable_fast_disk", False) and (
        is_dynamic(patcher))

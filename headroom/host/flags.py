"""The host adapter to ComfyUI's command line: the flags that it has."""

from typing import Any

import comfy.cli_args

from .reserve import has_dynamic_vram

CACHE_FLAGS = ("--high-ram", "--cache-lru", "--cache-classic")


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

"""The host adapter to ComfyUI's command line: the flags that it has."""

import comfy.cli_args


def known_flags() -> frozenset[str]:
    """Return every flag of this ComfyUI, such as "--reserve-vram"."""
    names = vars(comfy.cli_args.args)
    return frozenset("--" + name.replace("_", "-") for name in names)

"""The host adapter to ComfyUI's command line: the flags that it has."""

import comfy.cli_args


def unset_flags() -> frozenset[str]:
    """Return the flags without a value that this ComfyUI has and was started without."""
    return frozenset("--" + name.replace("_", "-")
                     for name, value in vars(comfy.cli_args.args).items() if value is False)


def known_flags() -> frozenset[str]:
    """Return every flag of this ComfyUI, such as "--reserve-vram"."""
    names = vars(comfy.cli_args.args)
    return frozenset("--" + name.replace("_", "-") for name in names)

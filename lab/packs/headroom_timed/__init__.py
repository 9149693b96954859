"""Nodes that tell by their own clock when they ran, in every way that ComfyUI runs nodes."""

from . import decoding, expanding, leaking, memory, telling, waiting

NODE_CLASS_MAPPINGS = {
    name: found
    for module in (waiting, decoding, expanding, leaking, memory, telling)
    for name, found in vars(module).items()
    if name.startswith("Timed") and name != "Timed"
}

"""comfy_aimdo/control.py, since comfy-aimdo 0.6.0: VRAM is left to others, settable at any time."""


def get_simple_vram_headroom():
    return 256 << 20


def set_simple_vram_headroom(headroom): ...

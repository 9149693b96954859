"""comfy_aimdo/model_vbar.py, seen in comfy-aimdo 0.4.13, which not every environment has."""


def vbars_reset_watermark_limits(): ...

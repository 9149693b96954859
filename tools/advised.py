"""The README's table: what all advice saves, as `benchmarks/fit_advised.py` recorded it."""

from . import results
from .bench_rows import Say
from .table import markdown

PART = "fit_advised"
TEMPLATES = {
    "flux_schnell": "Flux.1 schnell fp8, 1024×1024",
    "image_z_image_turbo": "Z-Image-Turbo bf16, 1024×1024",
    "sdxlturbo_example": "SDXL Turbo fp16, 512×512",
}


def table(say: Say) -> str:
    """The peaks of each template, of the newest record."""
    part = results.newest(PART)
    if part is None:
        return ""
    head = (say("Template", "模板") + f" (ComfyUI {part.comfyui})", say("As it is", "原样"),
            say("All advice applied", "应用全部建议后"))
    rows = [(f"{words}: `{name}`", *(f"{part.result[name][f'{kind}_mib']:,.0f}"
                                     for kind in ("as_it_is", "advised")))
            for name, words in TEMPLATES.items()]
    return markdown([head, *rows], "|---|--:|--:|")

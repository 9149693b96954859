"""The bundled workflows as a small machine can run them: tests and benchmarks share this.

What is changed, and nothing else: the values below, and the loader of each text encoder whose
class has no small form.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .settings import with_settings
from .stock import without_headroom
from .workflow_models import swap_text_encoder
from .workflows import published_prompt

Json = dict[str, Any]

# 50 steps at 1280x720 on a CPU would take hours: fewer steps, smaller pictures.
SMALLER: dict[str, dict[str, Any]] = {
    "start_here": {"KSampler.steps": 1, "Size Sorter.sizes": "64x64\n96x64"},
    "diffsynth_prompt_loop": {
        "KSampler.steps": 1,
        "EmptyHunyuanLatentVideo.width": 64,
        "EmptyHunyuanLatentVideo.height": 64,
        "EmptyHunyuanLatentVideo.length": 5,
    },
    "onediff_mixed_sizes": {
        "KSampler.steps": 1,
        "Size Sorter: 16 sizes.sizes": "heights=[64, 96] widths=[64, 85]",
    },
    "infiniteyou_720p_bf16": {
        "KSampler.steps": 2,
        "EmptySD3LatentImage.width": 128,
        "EmptySD3LatentImage.height": 64,
        "ImageScale.width": 128,
        "ImageScale.height": 64,
    },
    "diffusers_encode_only": {},
    "sd_controlnet_switch": {
        "KSampler.steps": 1,
        "EmptyLatentImage.width": 64,
        "EmptyLatentImage.height": 64,
    },
}
# Which small encoder stands in for the workflow's own; SD1.5's CLIP-L is used as it is.
ENCODERS = {
    "diffsynth_prompt_loop": "wan",
    "onediff_mixed_sizes": "sdxl",
    "infiniteyou_720p_bf16": "flux",
    "diffusers_encode_only": "qwen",
}
# TorchCompileModel stays in the graph; compiling 70 blocks for a CPU would take an hour.
ENVIRONMENT = {"TORCHDYNAMO_DISABLE": "1"}


@dataclass(frozen=True)
class Case:
    """How a workflow is compared with ComfyUI's own nodes: server flags, changed values, what for.

    `searched`: the smallest capacity is looked for. `lines_of`: the input that gets more lines.
    `by_blocks`: PyTorch's blocks make the difference, so it is measured on its own allocator.
    """

    flags: tuple[str, ...] = ()
    changes: Json = field(default_factory=dict)
    searched: bool = True
    lines_of: str = ""
    by_blocks: bool = False


CASES = {
    "start_here": Case(),
    "diffsynth_prompt_loop": Case(
        flags=("--gpu-only",), searched=False, lines_of="Prompts, one a line.text"
    ),
    # As in the published script, nothing leaves the GPU.
    "onediff_mixed_sizes": Case(
        flags=("--gpu-only",),
        changes={"Size Sorter: 16 sizes.sizes": "256x256\n256x288\n340x384"},
        by_blocks=True,
    ),
    # The published script kept every component in float32; ComfyUI by itself would not.
    "infiniteyou_720p_bf16": Case(flags=("--force-fp32",), changes={"KSampler.steps": 1}),
    "diffusers_encode_only": Case(searched=False),
    "sd_controlnet_switch": Case(
        changes={"EmptyLatentImage.width": 128, "EmptyLatentImage.height": 128}
    ),
}
LINE = "A red fox runs through fresh snow, take {}"


def both_prompts(name: str, **more: Any) -> dict[str, Json]:
    """The workflow without our nodes and with them, as they are compared."""
    prompt = small_prompt(name, **CASES[name].changes, **more)
    return {"stock": without_headroom(prompt), "headroom": prompt}


def prompt_lines(name: str, count: int) -> Json:
    """The changed value that gives the prompt loop `count` prompts."""
    return {CASES[name].lines_of: "\n".join(LINE.format(number) for number in range(count))}


def full_prompt(name: str, changes: Json | None = None) -> Json:
    """The prompt as it is bundled, or after `changes`, with the small text encoder."""
    prompt = with_settings(published_prompt(name), changes or {})
    return swap_text_encoder(prompt, ENCODERS[name]) if name in ENCODERS else prompt


def small_prompt(name: str, **more: Any) -> Json:
    """The same with the smaller values, then `more` of them."""
    return full_prompt(name, {**SMALLER[name], **more})


def write_example_picture(input_folder: Path) -> None:
    """The `example.png` that every ComfyUI brings, as a plain pattern."""
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (192, 192), "white")
    ImageDraw.Draw(picture).ellipse((32, 48, 160, 144), fill="black")
    input_folder.mkdir(parents=True, exist_ok=True)
    picture.save(input_folder / "example.png")

"""The card that a bundled workflow has under Templates: its heading over a picture of its nodes."""

import textwrap
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

SIDE, TOP, LINE, EDGE = 640, 134, 62, 36  # newer frontends lay a chip over what is above TOP
LETTERS = 20  # of a line
NIGHT, TEXT = "#1e1f25", "#f2f6ff"
# The nodes to be seen, by their titles.
SHOWN = {
    "diffsynth_prompt_loop": ["Load CLIP", "Prompts, one a line"],
    "diffusers_encode_only": ["Load CLIP", "Prompts, one a line"],
    "infiniteyou_720p_bf16": ["Guard the model", "KSampler"],
    "onediff_mixed_sizes": ["Size Sorter: 16 sizes", "Empty Latent Image"],
    "sd_controlnet_switch": ["Guard the model", "Without ControlNet"],
    "start_here": ["Cast bf16", "OOM Guard", "Size Sorter"],
}


def heading(workflow: dict[str, Any]) -> str:
    """Return the first line of a workflow's note, which says what it is about."""
    return str(workflow["nodes"][0]["widgets_values"][0].split("\n")[0].removeprefix("## "))


def share(title: str) -> float:
    """Return the height of a card's picture, as a part of its width."""
    return 1 - _top(title) / SIDE


def save_card(title: str, picture: Image.Image, path: Path) -> None:
    """Draw a card; its heading is the file's comment, too, so that a test can read it."""
    card = Image.new("RGB", (SIDE, SIDE), NIGHT)
    draw, font = ImageDraw.Draw(card), ImageFont.load_default(54)
    for number, line in enumerate(_lines(title)):
        draw.text((EDGE, TOP + number * LINE), line.replace("×", "x"), TEXT, font)
    size = (SIDE, SIDE - _top(title))
    card.paste(picture.resize(size, Image.Resampling.LANCZOS), (0, _top(title)))
    card.save(path, quality=88, comment=title.encode())


def _lines(title: str) -> list[str]:
    return textwrap.wrap(title, LETTERS)


def _top(title: str) -> int:
    return TOP + len(_lines(title)) * LINE + 14

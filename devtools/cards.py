"""Draw the card of each bundled workflow for ComfyUI's Templates: its problem over its picture.

    python -m devtools.cards

ComfyUI's page asks for `<name>.jpg` beside `<name>.json`. The pictures come from `docs/`.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from .draw import ROOT, UI_FOLDER
from .workflows import WORKFLOWS

SIDE, MARGIN, LETTER = 640, 32, 58  # pixels; the page shows a card at 200 to 400
GROUND, INK = "#1d1f24", "#f2f4f8"
LINE_LETTERS = 19


def card(title: str, picture: Image.Image) -> Image.Image:
    """A square with the title in large letters over the whole picture."""
    drawn = Image.new("RGB", (SIDE, SIDE), GROUND)
    small = picture.convert("RGB").resize(
        (SIDE, round(picture.height * SIDE / picture.width)), Image.Resampling.LANCZOS
    )
    top = SIDE - small.height
    drawn.paste(small, (0, top))
    font = ImageFont.load_default(size=LETTER)
    text = "\n".join(textwrap.wrap(title.replace("×", "x"), LINE_LETTERS))  # not in the font
    ink = ImageDraw.Draw(drawn)
    left, upper, _, lower = ink.multiline_textbbox((MARGIN, 0), text, font=font, spacing=10)
    place = (2 * MARGIN - left, (top - (lower - upper)) / 2 - upper)
    ink.multiline_text(place, text, fill=INK, font=font, spacing=10)
    return drawn


def picture_of(name: str) -> Path:
    return ROOT / "docs" / f"workflow-{name}.png"


def main() -> int:
    for name, module in WORKFLOWS.items():
        drawn = card(module.TITLE, Image.open(picture_of(name)))
        drawn.save(UI_FOLDER / f"{name}.jpg", quality=85, optimize=True)
        print(name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

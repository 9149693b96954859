"""The icon and the banner of the registry's page: `python -m tools.artwork`.

Both show the same drawing: memory in use over time, below the line of what the card has. Drawn
at four times the size and made smaller, so that slanted edges are smooth.
"""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FOLDER = Path(__file__).resolve().parent.parent / "docs"
FINE = 4
ICON = 400
BANNER = (1260, 540)  # 21:9, as the registry wants it
NIGHT, LINE, USED, FREE, TEXT = "#16233b", "#ff9d5c", "#4f8ff7", "#243a5e", "#f2f6ff"
# What is in use, as parts of the card: (time, memory).
USE = ((0.0, 0.10), (0.10, 0.34), (0.28, 0.34), (0.36, 0.78), (0.52, 0.78), (0.58, 0.30),
       (0.74, 0.30), (0.82, 0.52), (0.92, 0.52), (1.0, 0.16))
WORDS = ("Purge, offload, cast, encode to CPU,", "and recover from out-of-memory in ComfyUI.")


def draw_chart(draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], stroke: int) -> None:
    """The card as an area from left, top to right, bottom; the line of its end above it."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    draw.rectangle(box, fill=FREE)
    points = [(left + x * width, bottom - y * height) for x, y in USE]
    draw.polygon([(left, bottom), *points, (right, bottom)], fill=USED)
    draw.line([(left, top), (right, top)], fill=LINE, width=stroke)
    for x in (left, right):
        draw.circle((x, top), stroke / 2, fill=LINE)


def icon() -> Image.Image:
    side = ICON * FINE
    image = Image.new("RGBA", (side, side))
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((0, 0, side - 1, side - 1), side // 6, fill=NIGHT)
    edge = side // 6
    draw_chart(draw, (edge, edge + side // 24, side - edge, side - edge), side // 24)
    return image.resize((ICON, ICON), Image.Resampling.LANCZOS)


def banner() -> Image.Image:
    width, height = BANNER[0] * FINE, BANNER[1] * FINE
    image = Image.new("RGB", (width, height), NIGHT)
    draw = ImageDraw.Draw(image)
    draw_chart(draw, (width * 59 // 100, height // 4, width * 93 // 100, height * 3 // 4),
               height // 40)
    left = width * 6 // 100
    draw.text((left, height * 30 // 100), "Headroom", TEXT, ImageFont.load_default(height // 5))
    for number, line in enumerate(WORDS):
        draw.text((left, height * (56 + 9 * number) // 100), line, TEXT,
                  ImageFont.load_default(height // 18))
    return image.resize(BANNER, Image.Resampling.LANCZOS)


if __name__ == "__main__":
    icon().save(FOLDER / "icon.png", optimize=True)
    banner().save(FOLDER / "banner.png", optimize=True)

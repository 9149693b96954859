"""Draw with Pillow, which ComfyUI brings: lines over time in a plot, and text at any angle.

Everything is drawn at twice its size and halved at the end, which smooths lines and letters.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

SCALE = 2
GREY, DARK = "#888888", "#222222"
Point = tuple[float, float]


class Box(NamedTuple):
    """Where a plot lies on the canvas, in pixels."""

    left: float
    top: float
    right: float
    bottom: float


class Canvas:
    """A white picture of `width` by `height` pixels."""

    def __init__(self, width: int, height: int) -> None:
        from PIL import Image, ImageDraw

        self._image = Image.new("RGB", (width * SCALE, height * SCALE), "white")
        self._draw = ImageDraw.Draw(self._image, "RGBA")  # colours may be see-through: #rrggbbaa

    def rectangle(self, box: Box, colour: str) -> None:
        self._draw.rectangle([value * SCALE for value in box], fill=colour)

    def line(self, points: Sequence[Point], colour: str, width: float = 1) -> None:
        self._draw.line(_scaled(points), fill=colour, width=round(width * SCALE), joint="curve")

    def dashes(self, start: Point, end: Point, colour: str, dash: float = 5) -> None:
        length = math.dist(start, end)
        for at in np.arange(0, length, 2 * dash):
            ends = (at / length, min(at + dash, length) / length)
            self.line([_between(start, end, share) for share in ends], colour)

    def polygon(self, points: Sequence[Point], colour: str) -> None:
        self._draw.polygon(_scaled(points), fill=colour)

    def text(self, at: Point, text: str, size: int = 12, anchor: str = "la") -> None:
        """Write a line; `anchor` as Pillow has it, "mm" is the middle of the text."""
        self._draw.text((at[0] * SCALE, at[1] * SCALE), text, fill=DARK, font=_font(size),
                        anchor=anchor)

    def turned_text(self, at: Point, text: str, size: int, degrees: float) -> None:
        """Write a line that begins at `at` and rises by `degrees`; 90 is centred on `at`.

        It begins further left where it would leave the canvas.
        """
        from PIL import Image, ImageDraw

        font = _font(size)
        left, top, right, bottom = font.getbbox(text)
        patch = Image.new("L", (math.ceil(right - left) + 4, math.ceil(bottom - top) + 4), 0)
        ImageDraw.Draw(patch).text((2 - left, 2 - top), text, fill=255, font=font)
        mask = patch.rotate(degrees, expand=True, resample=Image.Resampling.BICUBIC)
        x, y = at[0] * SCALE, at[1] * SCALE - mask.height
        if degrees == 90:
            x, y = x - mask.width / 2, y + mask.height / 2
        x = max(min(x, self._image.width - mask.width), 0)
        self._image.paste(DARK, (round(x), round(y)), mask)

    def image(self) -> torch.Tensor:
        """Return the picture as an IMAGE: float32 in 0..1 of shape [1, height, width, 3]."""
        pixels = np.asarray(self._image.reduce(SCALE), dtype=np.float32) / 255.0
        return torch.from_numpy(pixels).unsqueeze(0)


class Plot:
    """A box of a canvas with time from 0 to `end` across and an amount from 0 to `top` upwards."""

    def __init__(self, canvas: Canvas, box: Box, end: float, top: float) -> None:
        self.canvas, self.box = canvas, box
        self._end, self._top = end, top

    def x(self, seconds: float) -> float:
        return self.box.left + (self.box.right - self.box.left) * seconds / self._end

    def y(self, amount: float) -> float:
        return self.box.bottom - (self.box.bottom - self.box.top) * amount / self._top

    def band(self, start: float, end: float, colour: str) -> None:
        left, right = self.x(start), self.x(end)
        self.canvas.rectangle(Box(left, self.box.top, right, self.box.bottom), colour)

    def steps(self, seconds: Sequence[float], values: Sequence[float | None], colour: str) -> None:
        """Draw a line that keeps each value until the next, with a faint area below."""
        for points in _runs(seconds, values):
            flat = [self._at(*point) for point in points]
            stairs = [flat[0]]
            for before, after in zip(flat, flat[1:], strict=False):
                stairs += [(after[0], before[1]), after]
            if len(stairs) > 1:
                floor = self.box.bottom
                area = [(stairs[0][0], floor), *stairs, (stairs[-1][0], floor)]
                self.canvas.polygon(area, f"{colour}14")
                self.canvas.line(stairs, colour, 1.6)

    def _at(self, seconds: float, amount: float) -> Point:
        return self.x(seconds), self.y(amount)

    def axes(self, label: str, with_seconds: bool) -> None:
        """Draw the frame, round figures along it, and what the amounts are."""
        box = self.box
        for amount in round_figures(self._top):
            self.canvas.line([(box.left, self.y(amount)), (box.right, self.y(amount))], "#00000022")
            self.canvas.text((box.left - 6, self.y(amount)), _figure(amount), 11, "rm")
        for seconds in round_figures(self._end, 10):
            x = self.x(seconds)
            self.canvas.line([(x, box.bottom), (x, box.bottom + 4)], GREY)
            if with_seconds:
                self.canvas.text((x, box.bottom + 6), _figure(seconds), 11, "ma")
        corners = [(box.left, box.top), (box.right, box.top), (box.right, box.bottom),
                   (box.left, box.bottom), (box.left, box.top)]
        self.canvas.line(corners, GREY)
        self.canvas.turned_text((box.left - 52, (box.top + box.bottom) / 2), label, 12, 90)


def round_figures(largest: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers from 0 to at most `largest`."""
    rough = largest / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough)
    return [index * step for index in range(math.floor(largest / step * (1 + 1e-9)) + 1)]


def _runs(
    seconds: Sequence[float], values: Sequence[float | None]
) -> list[list[tuple[float, float]]]:
    """Return the stretches in which every value is known."""
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in zip(seconds, values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((at, value))
    return [run for run in runs if run]


def _figure(value: float) -> str:
    return f"{value:,.10g}" if value < 10_000 else f"{value:,.0f}"


def _scaled(points: Sequence[Point]) -> list[Point]:
    return [(x * SCALE, y * SCALE) for x, y in points]


def _between(start: Point, end: Point, share: float) -> Point:
    return (start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share)


def _font(size: int) -> Any:
    from PIL import ImageFont

    try:
        return ImageFont.load_default(size * SCALE)
    except TypeError:  # Pillow before 10.1 has one small font
        return ImageFont.load_default()

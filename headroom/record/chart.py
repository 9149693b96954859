"""Draw a run with Pillow, which is part of ComfyUI: VRAM and RAM over time, nodes as bands."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 1200, 640
LEFT, RIGHT, TOP, BOTTOM, GAP = 84, 1176, 150, 592, 22
GREY, LIGHT, DARK = "#888888", "#dddddd", "#222222"
BAND_COLOURS = ("#dfe7f3", "#f4ead9")
VRAM_COLOURS = ("#3b5bdb", "#0c8599", "#7048e8", "#2b8a3e")
RAM_COLOUR, OOM_COLOUR = "#e8830c", "#d6336c"
NAMED_SHARE = 0.02
NAME_LETTERS = 20

Run = dict[str, Any]
Line = list[float | None]


def report_image(run: Run | None) -> torch.Tensor:
    """Return a run's record with samples (as `run_json` returns it) as an IMAGE.

    float32 in 0..1 of shape [1, 640, 1200, 3]; smaller where nothing was recorded, with a sentence.
    """
    if run is None:
        image, draw = _white(640, 80)
        draw.text((320, 40), "Nothing was recorded for this prompt.", DARK, _font(14), "mm")
        return _as_tensor(image)
    image, draw = _white(WIDTH, HEIGHT)
    seconds = run["samples"]["seconds"]
    vram = {device: line for device, values in run["samples"]["devices"].items()
            if _known(line := _gib(values))}
    ram = _gib(run["samples"]["rss_mib"])
    spans = sorted((*span, _name(node)) for node in run["nodes"] for span in node["spans"])
    plots = _plots(draw, run, vram, ram)
    for plot in plots:
        plot.bands(spans)
        plot.axes(with_seconds=plot is plots[-1])
    for line, colour in zip(vram.values(), VRAM_COLOURS * len(vram), strict=False):
        plots[0].line(seconds, line, colour)
    plots[-1].line(seconds, ram, RAM_COLOUR)
    for plot in plots:
        plot.marks(entry["at_seconds"] for entry in run["oom"])
    source = "all processes" if run["vram_source"] == "driver" else "this process"
    labels = [f"VRAM, {source} (GiB)"] * bool(vram) + ["RAM of this process (GiB)"]
    for plot, label in zip(plots, labels, strict=True):
        _upright(image, (LEFT - 52, (plot.top + plot.bottom) / 2), label, 12, "middle")
    for start, end, name in spans:
        if name and end - start >= NAMED_SHARE * plots[0].end:
            _upright(image, (plots[0].x((start + end) / 2), TOP - 4), name, 11, "start")
    _legend(draw, run, list(vram))
    peak, size = run["peak_vram_mib"], run["vram_total_mib"]
    of = f" of {size / 1024:,.2f}" if size is not None else ""
    peaks = f", peak VRAM {peak / 1024:,.2f}{of} GiB" if peak is not None else ""
    peaks += f", peak RAM {(run['peak_rss_mib'] or 0) / 1024:,.2f} GiB"
    title = f"{run['seconds']:,.1f} s on {run['device']}{peaks}"
    draw.text((WIDTH / 2, 10), title, DARK, _font(14), "ma")
    draw.text(((LEFT + RIGHT) / 2, BOTTOM + 26), "seconds", DARK, _font(12), "ma")
    return _as_tensor(image)


class _Plot(NamedTuple):
    """A box with time from 0 to `end` across, and GiB from 0 to `most` upwards."""

    draw: Any
    top: float
    bottom: float
    end: float
    most: float

    def x(self, seconds: float) -> float:
        return LEFT + (RIGHT - LEFT) * min(seconds / self.end, 1.0)

    def y(self, gib: float) -> float:
        return self.bottom - (self.bottom - self.top) * gib / self.most

    def bands(self, spans: Iterable[tuple[float, float, str]]) -> None:
        wide = [span for span in spans if span[1] - span[0] >= self.end / 1000]
        for index, (start, end, _) in enumerate(wide):
            box = (self.x(start), self.top, self.x(end), self.bottom)
            self.draw.rectangle(box, fill=BAND_COLOURS[index % 2])

    def line(self, seconds: Sequence[float], values: Line, colour: str) -> None:
        """Draw a line that keeps each value until the next one; unknown values leave a gap."""
        points = list(zip(map(self.x, seconds), values, strict=True))
        for (start, value), (end, after) in zip(points, points[1:], strict=False):
            if value is not None and after is not None:
                stairs = [(start, self.y(value)), (end, self.y(value)), (end, self.y(after))]
                self.draw.line(stairs, fill=colour, width=2)

    def marks(self, moments: Iterable[float]) -> None:
        """Mark where memory ran out."""
        for x in map(self.x, moments):
            self.draw.line([(x, self.top), (x, self.bottom)], fill=OOM_COLOUR)
            corners = [(x - 5, self.top), (x + 5, self.top), (x, self.top + 8)]
            self.draw.polygon(corners, fill=OOM_COLOUR)

    def axes(self, with_seconds: bool) -> None:
        """Draw the frame and round numbers along it."""
        for gib in round_figures(self.most):
            self.draw.line([(LEFT, self.y(gib)), (RIGHT, self.y(gib))], fill=LIGHT)
            self.draw.text((LEFT - 6, self.y(gib)), _figure(gib), DARK, _font(11), "rm")
        for seconds in round_figures(self.end, 10):
            x = self.x(seconds)
            self.draw.line([(x, self.bottom), (x, self.bottom + 4)], fill=GREY)
            if with_seconds:
                self.draw.text((x, self.bottom + 6), _figure(seconds), DARK, _font(11), "ma")
        self.draw.rectangle((LEFT, self.top, RIGHT, self.bottom), outline=GREY)


def _plots(draw: Any, run: Run, vram: dict[str, Line], ram: Line) -> list[_Plot]:
    """Lay out the plots from the top: VRAM, if there is a GPU, then RAM."""
    most = [max(max(_known(line)) for line in vram.values())] if vram else []
    most.append(max(_known(ram), default=1.0))
    height = (BOTTOM - TOP - GAP * (len(most) - 1)) / len(most)
    tops = [TOP + index * (height + GAP) for index in range(len(most))]
    return [_Plot(draw, top, top + height, max(run["seconds"], 1e-3), 1.12 * max(gib, 1e-3))
            for top, gib in zip(tops, most, strict=True)]


def _name(node: Run) -> str:
    """Return the title, or the class if it has other letters than Pillow's own font (ASCII)."""
    title = str(node["title"])
    named = title if title.isascii() else ascii(node["class_type"])[1:-1]
    return named if len(named) <= NAME_LETTERS else f"{named[: NAME_LETTERS - 2]}..."


def _legend(draw: Any, run: Run, devices: list[str]) -> None:
    """Explain the marks, and which line is which device if there are several."""
    rows = [("out of memory", OOM_COLOUR)] * bool(run["oom"])
    if len(devices) > 1:
        rows += zip(devices, VRAM_COLOURS * len(devices), strict=False)
    for index, (text, colour) in enumerate(rows):
        at = (LEFT + 12, TOP + 10 + 18 * index)
        draw.rectangle((*at, at[0] + 16, at[1] + 10), fill=colour)
        draw.text((at[0] + 24, at[1]), text, DARK, _font(11))


def round_figures(largest: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers from 0 to at most `largest`."""
    rough = largest / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough)
    return [index * step for index in range(math.floor(largest / step * (1 + 1e-9)) + 1)]


def _gib(values: Line) -> Line:
    return [None if value is None else value / 1024 for value in values]


def _known(values: Line) -> list[float]:
    return [value for value in values if value is not None]


def _figure(value: float) -> str:
    return f"{value:,.10g}" if value < 10_000 else f"{value:,.0f}"


def _white(width: int, height: int) -> tuple[Any, Any]:
    image = Image.new("RGB", (width, height), "white")
    return image, ImageDraw.Draw(image)


def _upright(image: Any, at: tuple[float, float], text: str, size: int, anchor: str) -> None:
    """Write a line from bottom to top that starts at `at`, or has its middle there."""
    font = _font(size)
    left, top, right, bottom = font.getbbox(text)
    patch = Image.new("L", (math.ceil(right - left), math.ceil(bottom - top)), 0)
    ImageDraw.Draw(patch).text((-left, -top), text, 255, font)
    turned = patch.rotate(90, expand=True)
    y = at[1] - (turned.height / 2 if anchor == "middle" else turned.height)
    image.paste(DARK, (round(at[0] - turned.width / 2), round(y)), turned)


def _font(size: int) -> Any:
    try:
        return ImageFont.load_default(size)
    except TypeError:  # Pillow before 10.1 has one small font
        return ImageFont.load_default()


def _as_tensor(image: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image, dtype=np.float32) / 255.0).unsqueeze(0)

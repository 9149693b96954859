"""Draw a run: VRAM and RAM over time, its nodes as bands, out-of-memory attempts as marks."""

import unicodedata
from typing import Any

import torch

from .canvas import GREY, Box, Canvas, Plot

WIDTH, HEIGHT = 1200, 640
LEFT, RIGHT, TOP, BOTTOM, GAP = 84, 1176, 118, 592, 22
BAND_COLOURS = ("#dfe7f3", "#f4ead9")
VRAM_COLOURS = ("#3b5bdb", "#0c8599", "#7048e8", "#2b8a3e")
RAM_COLOUR, OOM_COLOUR = "#e8830c", "#d6336c"
NAMED_SHARE = 0.02
NAME_DEGREES = 25

Run = dict[str, Any]


def report_image(run: Run | None) -> torch.Tensor:
    """Return the chart of `run`, or an image that says that nothing was recorded."""
    if run is None:
        return _sentence_image("Nothing was recorded for this prompt.")
    return chart_image(run)


def chart_image(run: Run) -> torch.Tensor:
    """Return a run's record with samples (as `run_json` gives it) as an IMAGE.

    float32 in 0..1 of shape [1, 640, 1200, 3]; costs some tenths of a second.
    """
    canvas = Canvas(WIDTH, HEIGHT)
    lines = _vram_lines(run)
    plots = _plots(canvas, run, lines)
    for plot in plots:
        _bands(plot, run)
    if lines:
        _vram(plots[0], run, lines)
    plots[-1].steps(run["samples"]["seconds"], _gib(run["samples"]["rss_mib"]), RAM_COLOUR)
    _marks(plots, run)
    source = "all processes" if run["vram_source"] == "driver" else "this process"
    labels = [f"VRAM, {source} (GiB)"] * bool(lines) + ["RAM of this process (GiB)"]
    for plot, label in zip(plots, labels, strict=True):
        plot.axes(label, with_seconds=plot is plots[-1])
    _names(plots[0], run)
    _legend(plots[0], run, lines)
    canvas.text((WIDTH / 2, 10), _title(run), 14, "ma")
    canvas.text(((LEFT + RIGHT) / 2, BOTTOM + 26), "seconds", 12, "ma")
    return canvas.image()


def _title(run: Run) -> str:
    peak = run["peak_vram_mib"]
    vram = f", peak VRAM {peak / 1024:,.2f} GiB" if peak is not None else ""
    ram = f", peak RAM {(run['peak_rss_mib'] or 0) / 1024:,.2f} GiB"
    return f"{run['seconds']:,.1f} s on {run['device']}{vram}{ram}"


def _vram_lines(run: Run) -> dict[str, list[float | None]]:
    """Return VRAM over time in GiB of every device that the run has used."""
    lines = {device: _gib(values) for device, values in run["samples"]["devices"].items()}
    return {device: line for device, line in lines.items() if any(v is not None for v in line)}


def _plots(canvas: Canvas, run: Run, lines: dict[str, list[float | None]]) -> list[Plot]:
    """Lay out the plots, from the top: VRAM where there is some, and RAM."""
    highest = [max(_known(line)) for line in lines.values()]
    tops = [max([_limit(run) or 0.0, *highest])] if lines else []
    tops.append(max(_known(_gib(run["samples"]["rss_mib"])), default=1.0))
    height = (BOTTOM - TOP - GAP * (len(tops) - 1)) / len(tops)
    end = max(run["seconds"], 1e-3)
    boxes = [Box(LEFT, TOP + i * (height + GAP), RIGHT, TOP + i * GAP + (i + 1) * height)
             for i in range(len(tops))]
    return [Plot(canvas, box, end, 1.12 * max(top, 1e-3))
            for box, top in zip(boxes, tops, strict=True)]


def _vram(plot: Plot, run: Run, lines: dict[str, list[float | None]]) -> None:
    for index, line in enumerate(lines.values()):
        plot.steps(run["samples"]["seconds"], line, VRAM_COLOURS[index % len(VRAM_COLOURS)])
    limit = _limit(run)
    if limit is not None:
        y = plot.y(limit)
        plot.canvas.dashes((plot.box.left, y), (plot.box.right, y), GREY)


def _limit(run: Run) -> float | None:
    """Return the size of the fullest card in GiB, where it does not flatten the lines."""
    total, peak = run["vram_total_mib"], run["peak_vram_mib"]
    shown = total is not None and peak is not None and peak > 0.5 * total
    return total / 1024 if shown else None


def _spans(run: Run) -> list[tuple[float, float, str]]:
    """Return every span with its node's title, in the order of time."""
    found = [(start, end, _name(node)) for node in run["nodes"] for start, end in node["spans"]]
    return sorted(found)


def _name(node: Run) -> str:
    """Return the title without accents, or the class: Pillow's own font has ASCII only."""
    parts = unicodedata.normalize("NFKD", str(node["title"]))
    title = "".join(letter for letter in parts if not unicodedata.combining(letter))
    named = title if title.isascii() else ascii(node["class_type"])[1:-1]
    return named if len(named) <= 28 else f"{named[:26]}..."


def _bands(plot: Plot, run: Run) -> None:
    shortest = max(run["seconds"], 1e-3) / 1000
    wide = [span for span in _spans(run) if span[1] - span[0] >= shortest]
    for index, (start, end, _) in enumerate(wide):
        plot.band(start, end, BAND_COLOURS[index % 2])


def _names(plot: Plot, run: Run) -> None:
    """Write the title of every node whose band is wide enough above it."""
    width = max(run["seconds"], 1e-3)
    for start, end, title in _spans(run):
        if end - start >= NAMED_SHARE * width and start + end <= 2 * width and title:
            at = (plot.x((start + end) / 2), plot.box.top - 4)
            plot.canvas.turned_text(at, title, 11, NAME_DEGREES)


def _marks(plots: list[Plot], run: Run) -> None:
    for plot in plots:
        for entry in run["oom"]:
            x, top = plot.x(entry["at_seconds"]), plot.box.top
            plot.canvas.dashes((x, top), (x, plot.box.bottom), OOM_COLOUR, 2)
            _triangle(plot.canvas, x, top + 4)


def _triangle(canvas: Canvas, x: float, y: float) -> None:
    canvas.polygon([(x - 5, y), (x + 5, y), (x, y + 8)], OOM_COLOUR)


def _legend(plot: Plot, run: Run, lines: dict[str, list[float | None]]) -> None:
    """Say what the marks are, and which line is which device where there are several."""
    x, y = plot.box.left + 12, plot.box.top + 10
    if run["oom"]:
        _triangle(plot.canvas, x + 8, y + 2)
        plot.canvas.text((x + 24, y), "out of memory", 11)
        y += 18
    for index, device in enumerate(lines if len(lines) > 1 else ()):
        colour = VRAM_COLOURS[index % len(VRAM_COLOURS)]
        plot.canvas.line([(x, y + 6), (x + 16, y + 6)], colour, 2)
        plot.canvas.text((x + 24, y), device, 11)
        y += 18


def _gib(values: list[float | None]) -> list[float | None]:
    return [None if value is None else value / 1024 for value in values]


def _known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _sentence_image(sentence: str) -> torch.Tensor:
    """Return an IMAGE that holds one sentence."""
    canvas = Canvas(640, 80)
    canvas.text((320, 40), sentence, 14, "mm")
    return canvas.image()

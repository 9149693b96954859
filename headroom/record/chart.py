"""Draw a run: VRAM and RAM over time, its nodes as bands, out-of-memory attempts as marks.

matplotlib is imported only when something is drawn, and without pyplot, whose global state and
choice of a window system have no place in a server.
"""

from typing import Any

import numpy as np
import torch

SIZE_INCHES = (12.0, 6.4)
DPI = 100
BAND_COLOURS = ("#dfe7f3", "#f4ead9")
VRAM_COLOUR, RAM_COLOUR, OOM_COLOUR = "#3b5bdb", "#e8830c", "#d6336c"
NAMED_SHARE = 0.02
LAST_LATIN = 0x24F


def report_image(run: dict[str, Any] | None) -> torch.Tensor:
    """Return the chart of `run`, or an image that says that nothing was recorded."""
    if run is None:
        return _sentence_image("Nothing was recorded for this prompt.")
    return chart_image(run)


def chart_image(run: dict[str, Any]) -> torch.Tensor:
    """Return a run's record with samples (as `Run.as_json` gives it) as an IMAGE.

    float32 in 0..1 of shape [1, height, width, 3]; costs some tenths of a second, more the first
    time. Without matplotlib the image holds one sentence that says so.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return _sentence_image("The chart needs matplotlib: pip install matplotlib")
    figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout="constrained", facecolor="white")
    canvas = FigureCanvasAgg(figure)
    _draw(figure, run)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(np.float32) / 255.0
    return torch.from_numpy(pixels).unsqueeze(0)


def _draw(figure: Any, run: dict[str, Any]) -> None:
    has_vram = run["peak_vram_mib"] is not None
    plots = list(figure.subplots(2 if has_vram else 1, 1, sharex=True, squeeze=False)[:, 0])
    for plot in plots:
        _bands(plot, run)
    if has_vram:
        source = "all processes" if run["vram_source"] == "driver" else "this process"
        _line(plots[0], run, "vram_mib", f"VRAM, {source} (GiB)", VRAM_COLOUR)
        _limit(plots[0], run)
    _line(plots[-1], run, "rss_mib", "RAM of this process (GiB)", RAM_COLOUR)
    _names(plots[0], run)
    _marks(plots, run)
    for plot in plots:
        plot.set_xlim(0, max(run["seconds"], 1e-3))
    plots[-1].set_xlabel("seconds")
    figure.suptitle(_title(run), fontsize=11)


def _title(run: dict[str, Any]) -> str:
    peak = run["peak_vram_mib"]
    vram = f", peak VRAM {peak / 1024:,.2f} GiB" if peak is not None else ""
    ram = f", peak RAM {run['peak_rss_mib'] / 1024:,.2f} GiB"
    return f"{run['seconds']:,.1f} s on {run['device']}{vram}{ram}"


def _line(plot: Any, run: dict[str, Any], name: str, label: str, colour: str) -> None:
    seconds = run["samples"]["seconds"]
    values = [np.nan if value is None else value / 1024 for value in run["samples"][name]]
    plot.plot(seconds, values, color=colour, linewidth=1.6, drawstyle="steps-post")
    plot.fill_between(seconds, values, step="post", color=colour, alpha=0.08)
    plot.set_ylabel(label)
    plot.grid(axis="y", color="#cccccc", linewidth=0.5)
    plot.set_axisbelow(True)
    plot.set_ylim(0, 1.12 * max([value for value in values if value == value], default=1.0))


def _limit(plot: Any, run: dict[str, Any]) -> None:
    """Show the size of the card, where it does not flatten the line."""
    total, peak = run["vram_total_mib"], run["peak_vram_mib"]
    if total is not None and peak > 0.5 * total:
        plot.axhline(total / 1024, color="#666666", linewidth=1, linestyle="--")
        plot.set_ylim(0, 1.12 * total / 1024)


def _spans(run: dict[str, Any]) -> list[tuple[float, float, str]]:
    """Return every span with its node's title, in the order of time."""
    found = [(start, end, _name(node)) for node in run["nodes"] for start, end in node["spans"]]
    return sorted(found)


def _name(node: dict[str, Any]) -> str:
    """Return the title, or the class where matplotlib's own font has no letters for the title."""
    title = str(node["title"])
    named = title if all(ord(letter) <= LAST_LATIN for letter in title) else node["class_type"]
    return named if len(named) <= 28 else f"{named[:26]}..."


def _bands(plot: Any, run: dict[str, Any]) -> None:
    shortest = max(run["seconds"], 1e-3) / 1000
    wide = [span for span in _spans(run) if span[1] - span[0] >= shortest]
    for index, (start, end, _) in enumerate(wide):
        plot.axvspan(start, end, color=BAND_COLOURS[index % 2], linewidth=0, zorder=0)


def _names(plot: Any, run: dict[str, Any]) -> None:
    """Write the title of every node whose band is wide enough above it."""
    width = max(run["seconds"], 1e-3)
    for start, end, title in _spans(run):
        if end - start >= NAMED_SHARE * width and start + end <= 2 * width:
            plot.annotate(
                title, ((start + end) / 2, 1.0),
                xycoords=("data", "axes fraction"), xytext=(0, 4), textcoords="offset points",
                fontsize=8, rotation=25, ha="left", va="bottom", annotation_clip=False,
                parse_math=False,
            )


def _marks(plots: list[Any], run: dict[str, Any]) -> None:
    seconds = [entry["at_seconds"] for entry in run["oom"]]
    for plot in plots if seconds else []:
        plot.vlines(
            seconds, 0, 1, colors=OOM_COLOUR, linewidth=1.2, linestyle=":",
            transform=plot.get_xaxis_transform(),
        )
        plot.plot(
            seconds, [0.97] * len(seconds), "v", color=OOM_COLOUR, markersize=7,
            transform=plot.get_xaxis_transform(), label="out of memory", zorder=5,
        )
    if seconds:
        plots[0].legend(loc="upper left", fontsize=8, framealpha=0.9)


def _sentence_image(sentence: str) -> torch.Tensor:
    """Return an IMAGE that holds one sentence, drawn by the imaging library ComfyUI brings."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (640, 80), "white")
    ImageDraw.Draw(image).text((20, 32), sentence, fill="black")
    return torch.from_numpy(np.asarray(image).astype(np.float32) / 255.0).unsqueeze(0)

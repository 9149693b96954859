"""What a picture of a page shows: nodes in their places, the part that they fill, no messages."""

import io
from pathlib import Path

BATCH_PLACES = {
    "1": [(0, 0), (240, 100)], "2": [(0, 150), (240, 120)], "7": [(0, 320), (240, 120)],
    "3": [(0, 500), (240, 320)], "8": [(300, 500), (200, 50)], "4": [(540, 0), (240, 270)],
    "5": [(820, 0), (170, 50)], "6": [(1020, 0), (430, 460)],
}
PLACES = {
    "1": [(0, 0), (320, 110)], "9": [(0, 190), (320, 230)], "3": [(0, 500), (320, 330)],
    "2": [(400, 0), (340, 120)], "7": [(400, 190), (340, 120)], "10": [(400, 380), (340, 150)],
    "8": [(400, 620), (340, 50)], "4": [(820, 0), (340, 290)], "5": [(820, 380), (340, 50)],
    "6": [(820, 510), (340, 360)],
}
TOP_PIXELS = 120  # the menu and the messages of the frontend
HIDE = """.p-toast, [data-testid="queue-notification-banner"], .job-completed-banner
  { display: none !important; }"""
FIT = """([left, top, margin, only]) => {
  const { canvas, graph } = app;
  const shown = only ? graph._nodes.filter(node => only.includes(node.title))
    : [...graph._nodes, ...graph._groups];
  const boxes = shown.map(one => one.boundingRect ?? one._bounding);
  if (!only) for (const { pos } of graph.reroutes?.values() ?? []) boxes.push([...pos, 0, 0]);
  const x = Math.min(...boxes.map(b => b[0])), y = Math.min(...boxes.map(b => b[1]));
  const right = Math.max(...boxes.map(b => b[0] + b[2]));
  const bottom = Math.max(...boxes.map(b => b[1] + b[3]));
  const wide = innerWidth - left - 2 * margin, high = innerHeight - top - 2 * margin;
  const scale = Math.min(1.2, wide / (right - x), high / (bottom - y));
  canvas.ds.scale = scale;
  canvas.ds.offset[0] = (left + margin) / scale - x;
  canvas.ds.offset[1] = (top + margin) / scale - y;
  canvas.setDirty(true, true);
  return { x: left, y: top, width: (right - x) * scale + 2 * margin,
           height: (bottom - y) * scale + 2 * margin };
}"""


def arrange(comfy, places) -> None:
    """Put the nodes in their places, as a saved workflow has them: both canvases read that."""
    comfy.page.evaluate(
        """places => {
          const workflow = app.graph.serialize();
          for (const node of workflow.nodes) [node.pos, node.size] = places[node.id];
          return app.loadGraphData(workflow);
        }""",
        places,
    )
    comfy.loaded(len(places))


def fit(comfy, left: float, top: int = TOP_PIXELS, only: list | None = None) -> dict:
    """The workflow, or the nodes with these titles, right of `left`; gives the part they fill."""
    comfy.page.add_style_tag(content=HIDE)
    comfy.page.evaluate(FIT, [left, top, 30, only])
    comfy.settled()
    part = comfy.page.evaluate(FIT, [left, top, 30, only])
    comfy.page.mouse.move(left + 5, comfy.page.viewport_size["height"] - 5)
    comfy.settled()
    return dict(part)


def save(comfy, path: Path, **options) -> None:
    """A picture of the page, small enough for a repository: 256 colours, 1800 pixels at most."""
    from PIL import Image

    picture = Image.open(io.BytesIO(comfy.page.screenshot(**options))).convert("RGB")
    picture.thumbnail((1800, 1800), Image.Resampling.LANCZOS)
    few = picture.quantize(256, Image.Quantize.MEDIANCUT, 3, dither=Image.Dither.NONE)
    few.save(path, optimize=True)

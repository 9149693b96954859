"""Pictures for the README.

    HEADROOM_PICTURES=docs python dev.py test tests/browser/test_pictures.py

Each shows the real panel over a real run on the simulated GPU. Without the variable they are
skipped.
"""

import json
import os
from pathlib import Path

import pytest
from support.prompts import node, sampling

pytestmark = [pytest.mark.host, pytest.mark.browser]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = os.environ.get("HEADROOM_PICTURES")
WORKFLOWS = sorted((ROOT / "workflows").glob("*.json"))
CAPACITY_MIB = 2048
PANEL_PIXELS = 420
PLACES = {
    "1": (0, 40), "2": (330, 0), "3": (330, 460), "4": (1130, 0), "5": (1480, 0), "6": (1480, 120),
    "7": (0, 240), "8": (790, 0),
}
# Every node drawn with its text at any zoom, and no messages of the frontend in the way.
SETTINGS = {"Comfy__Minimap__Visible": False, "LiteGraph__Canvas__MinFontSizeForLOD": 0}
FIT = """([left, margin]) => {
  const { canvas, graph } = app;
  const boxes = [...graph._nodes, ...graph._groups].map(one => one.boundingRect ?? one._bounding);
  const x = Math.min(...boxes.map(b => b[0])), y = Math.min(...boxes.map(b => b[1]));
  const right = Math.max(...boxes.map(b => b[0] + b[2]));
  const bottom = Math.max(...boxes.map(b => b[1] + b[3]));
  const wide = innerWidth - left - 2 * margin, high = innerHeight - 3.5 * margin;
  const scale = Math.min(1.2, wide / (right - x), high / (bottom - y));
  canvas.ds.scale = scale;
  canvas.ds.offset[0] = (left + margin) / scale - x;
  canvas.ds.offset[1] = 2.5 * margin / scale - y;
  canvas.setDirty(true, true);
}"""


@pytest.fixture
def folder():
    if not FOLDER:
        pytest.skip("set HEADROOM_PICTURES to the folder that the pictures go to")
    path = Path(FOLDER)
    path.mkdir(parents=True, exist_ok=True)
    return path


def guarded_prompt(seed: int) -> dict:
    """Sampling with OOM Guard; the text encoder leaves the GPU before it."""
    prompt = sampling(seed=seed, size=256, guarded=True)
    prompt["8"] = node(
        "HeadroomOffloadModel", model=["1", 1], after=["2", 0], scope="this model", to="CPU"
    )
    prompt["4"]["inputs"].update(positive=["8", 1], negative=["8", 1])
    return prompt


def arrange(comfy) -> None:
    """Put the nodes in their places, as a saved workflow has them: both canvases read that."""
    comfy.page.evaluate(
        """places => {
          const workflow = app.graph.serialize();
          for (const node of workflow.nodes) node.pos = places[node.id];
          return app.loadGraphData(workflow);
        }""",
        PLACES,
    )
    comfy.loaded(len(PLACES))


def fit(comfy, left: int) -> None:
    """The whole workflow in the part of the page right of `left`."""
    comfy.page.add_style_tag(content=".p-toast { display: none !important; }")
    comfy.page.evaluate(FIT, [left, 40])
    comfy.page.wait_for_timeout(1500)


@pytest.mark.parametrize("nodes2", [False, True], ids=["classic", "nodes2"])
@pytest.mark.parametrize("light", [False, True], ids=["dark", "light"])
def test_picture_of_the_panel_after_a_recovered_run(sim, open_page, folder, light, nodes2):
    gpu = sim(CAPACITY_MIB)
    gpu.set_other_process(220)
    comfy = open_page(gpu, light=light, nodes2=nodes2, **SETTINGS)
    comfy.load_prompt(guarded_prompt(100 + light + 2 * nodes2))
    arrange(comfy)
    panel = comfy.open_panel()
    comfy.run()  # loads and encodes, so that the fault meets the sampler
    gpu.arm_fault(at=200, times=1)
    run = comfy.run()
    assert run["oom"] and run["status"] == "success"
    comfy.until(lambda: panel.locator("tr[data-node]").count() == len(run["nodes"]))
    fit(comfy, PANEL_PIXELS)
    name = "panel" + ("-light" if light else "") + ("-nodes2" if nodes2 else "")
    comfy.page.screenshot(path=folder / f"{name}.png")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_picture_of_a_bundled_workflow(cpu_server, open_page, folder, path):
    workflow = json.loads(path.read_text(encoding="utf-8"))
    comfy = open_page(cpu_server, **SETTINGS)
    comfy.page.set_viewport_size({"width": 2200, "height": 1240})
    comfy.load_workflow(workflow, len(workflow["nodes"]))
    fit(comfy, 60)
    comfy.page.screenshot(path=folder / f"workflow-{path.stem}.png")

"""Pictures for the README and the design of the panel and the bundled workflows.

    HEADROOM_PICTURES=docs python dev.py test tests/browser/test_pictures.py

Each shows the real panel over a real run on the simulated GPU (`support.photographs` has its
model), or a workflow as it opens, with small random-weight models under the names that it asks for.
Without the variable they are skipped.
"""

import io
import json
import os
from pathlib import Path

import pytest
from support.cards import SHOWN, heading, save_card, share
from support.photographs import FILE, make_handing_checkpoint, save_photographs
from support.picture_page import BATCH_PLACES, PLACES, arrange, fit, save
from support.prompts import MAKE_QUICKER, QUICKER, node, sampling

from tools.graph import GUARD_DEFAULTS

pytestmark = [pytest.mark.host, pytest.mark.browser]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = os.environ.get("HEADROOM_PICTURES")
WORKFLOWS = sorted((ROOT / "workflows").glob("*.json"))
LOOKS = {  # the Chinese ones need a Chinese font: Debian has fonts-wqy-microhei
    "panel": {}, "panel-nodes2": {"nodes2": True},
    "panel-light-nodes2": {"nodes2": True, "light": True},
    "panel-zh": {"locale": "zh"}, "panel-zh-nodes2": {"locale": "zh", "nodes2": True},
}
CAPACITY_MIB = 4096
RERUN_S = 900
WIDTH, HEIGHT = 1500, 1240
NARROW, LOW = 1080, 700  # pages whose pictures are read at the 830 pixels that GitHub gives them
BELOW_THE_OFFER = 280
TABS_PIXELS = 40  # the names of open workflows, which a film leaves out
FAILING = ["KSampler", "VAE Decode", "Preview Image"]
# Photographs come from one file, are encoded, sampled and decoded.
PHOTOGRAPHS = "photographs.webp"
POINTER = """([x, y]) => {
  const arrow = document.createElement("div");
  arrow.id = "film-pointer";
  arrow.innerHTML = `<svg width="26" height="34" viewBox="0 0 26 34"><path d="M2 2v24l6-6 4 10 5-2
    -4-10h9z" fill="#fff" stroke="#000" stroke-width="2"/></svg>`;
  Object.assign(arrow.style, { position: "fixed", left: `${x}px`, top: `${y}px`, zIndex: 99999,
                               pointerEvents: "none" });
  document.body.append(arrow);
}"""
# Every node drawn with its text at any zoom, and no messages of the frontend in the way.
SETTINGS = {
    "Comfy__Minimap__Visible": False, "LiteGraph__Canvas__MinFontSizeForLOD": 0,
    "Comfy__Graph__CanvasInfo": False,
}


def beside(panel) -> float:
    """Where the canvas begins, right of the panel."""
    box = panel.bounding_box()
    return float(box["x"] + box["width"])


@pytest.fixture
def folder():
    if not FOLDER:
        pytest.skip("set HEADROOM_PICTURES to the folder that the pictures go to")
    path = Path(FOLDER)
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="session")
def models_dir():
    from tools.workflow_models import make_workflow_models

    return make_workflow_models()


@pytest.fixture
def gpu(folder, sim):
    return sim(CAPACITY_MIB)


@pytest.fixture
def photograph_gpu(folder, sim):
    """One on which SD1.5 at its real sizes gives out the photographs that it gets."""
    gpu = sim(CAPACITY_MIB, packs=[ROOT / "tests" / "host" / "packs" / "headroom_noise_shapes"])
    make_handing_checkpoint(gpu.server.base_dir / "models")
    return gpu


def batch_prompt(seed: int = 120) -> dict:
    """Photographs are encoded, sampled and decoded, as picture to picture does it."""
    prompt = sampling(seed=seed)
    prompt["1"]["inputs"]["ckpt_name"] = Path(FILE).name
    prompt["3"] = node("LoadImage", image=PHOTOGRAPHS)
    prompt["8"] = node("VAEEncode", pixels=["3", 0], vae=["1", 2])
    prompt["7"] = node("CLIPTextEncode", clip=["1", 1], text="blurry")
    prompt["2"]["inputs"]["text"] = "a photograph of a cat, close"
    prompt["4"]["inputs"].update(
        latent_image=["8", 0], negative=["7", 0], denoise=0.3, steps=2, cfg=1.0)
    return prompt


def guarded_prompt(seed: int) -> dict:
    """The same with OOM Guard; the text encoder leaves the GPU before it."""
    prompt = batch_prompt(seed)
    prompt["9"] = node("HeadroomOOMGuard", model=["1", 0], **GUARD_DEFAULTS)
    prompt["10"] = node(
        "HeadroomOffloadModel", model=["1", 1], after=["2", 0], scope="this model", to="CPU"
    )
    prompt["4"]["inputs"].update(model=["9", 0], positive=["10", 1])
    return prompt


@pytest.mark.parametrize("name", LOOKS)
def test_picture_of_the_panel_after_a_recovered_run(photograph_gpu, open_page, folder, name):
    gpu = photograph_gpu
    save_photographs(gpu.server.base_dir / "input" / PHOTOGRAPHS, 1, 768)
    gpu.set_other_process(700)
    comfy = open_page(gpu, **LOOKS[name], **SETTINGS)
    comfy.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    comfy.load_prompt(guarded_prompt(100 + list(LOOKS).index(name)))
    arrange(comfy, PLACES)
    panel = comfy.open_panel()
    comfy.run()  # loads and encodes, so that the fault meets the sampler
    gpu.arm_fault(at=200, times=1)
    run = comfy.run()
    assert run["oom"] and run["status"] == "success"
    comfy.until(lambda: panel.locator("tr[data-node]").count() == len(run["nodes"]))
    fit(comfy, beside(panel))
    save(comfy, folder / f"{name}.png")


def test_picture_of_start_here_after_a_run(gpu, open_page, folder):
    path = ROOT / "workflows" / "start_here.json"
    workflow = json.loads(path.read_text(encoding="utf-8"))
    comfy = open_page(gpu, **SETTINGS)
    comfy.page.set_viewport_size({"width": NARROW, "height": HEIGHT})
    comfy.load_workflow(workflow, len(workflow["nodes"]))
    comfy.page.evaluate(MAKE_QUICKER, QUICKER)
    panel = comfy.open_panel()
    run = comfy.run(timeout=500)
    assert run["status"] == "success"
    comfy.until(lambda: panel.locator("tr[data-node]").count() == len(run["nodes"]))
    fit(comfy, beside(panel), only=["Table", "Memory over time"])
    save(comfy, folder / "start-here-after-a-run.png")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_picture_of_a_bundled_workflow(gpu, open_page, folder, path):
    workflow = json.loads(path.read_text(encoding="utf-8"))
    comfy = open_page(gpu, **SETTINGS)
    comfy.page.set_viewport_size({"width": 2200, "height": HEIGHT})
    comfy.load_workflow(workflow, len(workflow["nodes"]))
    part = fit(comfy, 60)
    save(comfy, folder / f"workflow-{path.stem}.png", clip=part)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_card_of_a_bundled_workflow(gpu, open_page, folder, path):
    from PIL import Image

    workflow = json.loads(path.read_text(encoding="utf-8"))
    comfy = open_page(gpu, **SETTINGS)
    comfy.page.set_viewport_size({"width": WIDTH, "height": WIDTH})
    comfy.load_workflow(workflow, len(workflow["nodes"]))
    part = fit(comfy, 60, only=SHOWN[path.stem])
    part["height"] = part["width"] * share(heading(workflow))
    picture = Image.open(io.BytesIO(comfy.page.screenshot(clip=part))).convert("RGB")
    save_card(heading(workflow), picture, path.with_suffix(".jpg"))


class Film:
    """An animated picture of a page, a frame at a time."""

    def __init__(self, page) -> None:
        self.page, self.frames, self.milliseconds = page, [], []

    def take(self, milliseconds: int) -> None:
        """Show the page as it is now for so long; as long again where nothing has changed."""
        from PIL import Image

        view = self.page.viewport_size
        part = {"x": 0, "y": TABS_PIXELS, "width": view["width"],
                "height": view["height"] - TABS_PIXELS}
        frame = Image.open(io.BytesIO(self.page.screenshot(clip=part))).convert("RGB")
        if self.frames and frame.tobytes() == self.frames[-1].tobytes():
            self.milliseconds[-1] += milliseconds
            return
        self.frames.append(frame)
        self.milliseconds.append(milliseconds)

    def point_at(self, place) -> None:
        """Draw a pointer there: a page without a screen shows none."""
        box = place.bounding_box()
        at = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        self.page.evaluate(POINTER, at)

    def save(self, path: Path, quality: int = 62) -> None:
        first, *others = self.frames
        first.save(path, save_all=True, append_images=others, duration=self.milliseconds,
                   loop=0, quality=quality, method=6)


def test_moving_picture_of_a_rerun(photograph_gpu, open_page, folder):
    """ComfyUI stops in red, with the offer; it is taken; the pictures come, with the panel.

    Nothing is made to fail: sixteen pictures of 1024×1024 at once do not fit beside SD1.5 in 4 GiB.
    """
    gpu = photograph_gpu
    save_photographs(gpu.server.base_dir / "input" / PHOTOGRAPHS, 16, 1024)
    comfy = open_page(gpu, **SETTINGS)
    comfy.page.set_viewport_size({"width": NARROW, "height": LOW})
    comfy.load_prompt(batch_prompt())
    arrange(comfy, BATCH_PLACES)
    gpu.client.post_json("/headroom/peaks", {})  # other pictures may have come before
    film = Film(comfy.page)
    fit(comfy, 60, BELOW_THE_OFFER, FAILING)
    film.take(1200)
    run = comfy.run()
    offer = comfy.page.locator(f"[data-offer='{run['prompt_id']}']")
    offer.wait_for()
    film.take(2200)
    comfy.page.keyboard.press("Escape")
    fit(comfy, 60, BELOW_THE_OFFER, FAILING)
    film.take(1800)
    button = offer.get_by_role("button").last
    film.point_at(button)
    film.take(1300)
    button.click()
    comfy.page.evaluate("() => document.querySelector('#film-pointer').remove()")
    rerun = comfy.until(lambda: comfy.get(f"/headroom/runs/{run['prompt_id']}")["rescued_as"])
    before = len(film.frames)

    def is_done() -> bool:
        comfy.page.wait_for_timeout(1000)
        film.take(0)
        return comfy.get(f"/headroom/runs/{rerun}").get("status") == "success"

    comfy.until(is_done, RERUN_S)
    film.milliseconds[before:] = [400] * (len(film.frames) - before)  # minutes, in seconds
    panel = comfy.open_panel()
    panel.locator(f"[data-rescue='{rerun}']").wait_for()
    fit(comfy, beside(panel), only=FAILING)
    film.take(4500)
    film.save(folder / "rerun.webp")

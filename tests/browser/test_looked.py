import json
import os
from pathlib import Path

import importlib.util
import pytest
from support.prompts import QUICKER

spec = importlib.util.spec_from_file_location("pics", Path(__file__).with_name("test_pictures.py"))
pics = importlib.util.module_from_spec(spec); spec.loader.exec_module(pics)
pytestmark = [pytest.mark.host, pytest.mark.browser]
OUT = Path(os.environ.get("LOOK", "/tmp/look"))

@pytest.fixture(scope="session")
def models_dir():
    from tools.workflow_models import make_workflow_models
    return make_workflow_models()

@pytest.fixture
def gpu(sim):
    if os.environ.get("NEW"):
        return sim(4096, comfyui=Path(os.environ["HEADROOM_NEWEST_COMFYUI"]))
    return sim(4096)

@pytest.mark.parametrize("locale", ["en", "zh"])
@pytest.mark.parametrize("nodes2", [False, True], ids=["classic", "nodes2"])
@pytest.mark.parametrize("light", [False, True], ids=["dark", "light"])
def test_look(gpu, open_page, locale, nodes2, light):
    OUT.mkdir(parents=True, exist_ok=True)
    path = pics.ROOT / "workflows" / "start_here.json"
    workflow = pics.quicker(json.loads(path.read_text(encoding="utf-8")))
    comfy = open_page(gpu, light=light, nodes2=nodes2, locale=locale, **pics.SETTINGS)
    comfy.page.set_viewport_size({"width": 2000, "height": 1300})
    comfy.load_workflow(workflow, len(workflow["nodes"]))
    panel = comfy.open_panel()
    comfy.run(timeout=500)
    comfy.until(lambda: panel.locator("tr[data-node]").count() > 3)
    pics.fit(comfy, pics.beside(panel), 60)
    name = f"{locale}-{'nodes2' if nodes2 else 'classic'}-{'light' if light else 'dark'}"
    comfy.page.screenshot(path=OUT / f"{name}.png")
    comfy.page.evaluate("() => document.querySelector('.headroom-panel').parentElement.scrollTo(0, 99999)")
    panel.locator(".headroom-bug").scroll_into_view_if_needed()
    comfy.settled()
    comfy.page.screenshot(path=OUT / f"{name}-below.png", clip={"x": 0, "y": 0, "width": 800, "height": 1300})

"""The bundled workflows in the real frontend: they open clean and export what the tests run."""

import json

import pytest
from support.browser import CANVAS
from support.canvas_history import PROMPT
from support.page_scripts import CUT_TITLES
from support.prompts import MAKE_QUICKER, QUICKER, untitled
from support.shown import shown_mib

from tools import workflow_trials
from tools.graph import forget_everything
from tools.lab import PACKS
from tools.workflows import WORKFLOWS, published_prompt, workflow

pytestmark = [pytest.mark.host, pytest.mark.browser]

ODD_VALUES = """() => app.graph._nodes.flatMap(node => (node.widgets ?? [])
    .filter(w => w.type === 'combo' && !w.options.values.includes(w.value))
    .map(w => `${node.title}.${w.name} = ${w.value}`))"""
MODEL = "v1-5-pruned-emaonly-fp16"
FOLDER_NAME = "headroom-nodes"  # as the registry calls it; the longer of the two that it may have
SAVED = "() => JSON.stringify(app.graph.serialize())"
UNKNOWN_NODES = "() => app.graph._nodes.filter(n => n.has_errors).map(n => n.type)"


@pytest.fixture(scope="session")
def models_dir():
    from tools.workflow_models import make_workflow_models

    return make_workflow_models()


@pytest.fixture
def gpu(sim):
    gpu = sim(4096, packs=[PACKS / "headroom_shapes_only"], pack_name=FOLDER_NAME)
    workflow_trials.write_example_picture(gpu.server.base_dir / "input")
    return gpu


def opened(comfy, name, *, model=MODEL):
    """The workflow `name` on the canvas, asking for `model` in the place of its own."""
    text = comfy.page.request.get(
        f"{comfy.url}/api/workflow_templates/{FOLDER_NAME}/{name}.json").text()
    served = json.loads(text.replace(MODEL, model))
    return comfy.load_workflow(served, len(served["nodes"]))


@pytest.fixture
def declared(gpu):
    """The inputs that the server declares for each class of node."""
    return {
        kind: {name for group in info["input"].values() for name in group}
        for kind, info in gpu.client.get_json("/object_info").items()
    }


def exported(comfy, declared):
    """The prompt without what the page keeps for itself: PreviewAny's text box is none of it."""
    prompt = untitled(comfy.page.evaluate(PROMPT))
    for node in prompt.values():
        known = declared[node["class_type"]]
        node["inputs"] = {name: value for name, value in node["inputs"].items() if name in known}
    return prompt


@CANVAS
def test_every_workflow_opens_without_a_warning_exports_its_prompt_and_survives_a_save_and_a_load(
    gpu, open_page, declared, nodes2
):
    comfy = open_page(gpu, nodes2=nodes2)
    page = comfy.page
    for name in WORKFLOWS:
        saved = json.loads(opened(comfy, name).page.evaluate(SAVED))
        for is_loaded_again in (False, True):
            if is_loaded_again:
                page.evaluate("() => app.graph.clear()")
                comfy.load_workflow(saved, len(saved["nodes"]))
            assert exported(comfy, declared) == untitled(published_prompt(name)), name
            assert page.evaluate(ODD_VALUES) == page.evaluate(UNKNOWN_NODES) == [], name
            assert page.locator(".p-dialog").count() == 0, name
            assert page.evaluate(CUT_TITLES) == [], name  # beside the pack's name
        titles = page.evaluate("() => app.graph._groups.map(g => g.title)")
        assert titles == [group["title"] for group in workflow(name)["groups"]], name


def test_a_workflow_from_the_templates_runs_and_the_page_shows_its_record(gpu, open_page):
    forget_everything(gpu.client)
    comfy = open_page(gpu)
    page = comfy.page
    page.evaluate("() => app.extensionManager.command.execute('Comfy.BrowseTemplates')")
    page.get_by_role("dialog").get_by_text(FOLDER_NAME, exact=True).click()
    page.get_by_test_id("template-workflow-start_here").click()
    comfy.loaded(len(workflow("start_here")["nodes"]))
    page.evaluate(MAKE_QUICKER, QUICKER)
    panel = comfy.open_panel()
    run = comfy.run(timeout=500)
    assert run["status"] == "success"
    peaks = {each["node_id"]: each["peak_vram_mib"] for each in run["nodes"]}
    comfy.until(lambda: panel.locator("tr[data-node]").count() == len(peaks))
    assert None not in peaks.values()
    for key, peak in peaks.items():
        shown = panel.locator(f"tr[data-node='{key}'] td").nth(1).get_attribute("title")
        assert shown == shown_mib(peak), key
    took = [each["node_id"] for each in run["nodes"] if each["seconds"] >= 0.0005]
    comfy.until(lambda: all(comfy.badges()[key] for key in took))


def offered(page):
    """What offers the downloads: a dialog, or in newer frontends a part of the errors panel."""
    dialog = page.locator(".p-dialog", has_text="Missing Models")
    notice = page.get_by_test_id("error-overlay-see-errors")
    dialog.or_(notice).first.wait_for(timeout=60_000)
    if dialog.is_visible():
        return dialog
    notice.click()
    newest = page.get_by_test_id("error-group-missing-model")
    return newest.or_(page.locator(":has(> [data-testid='missing-model-groups'])")).first


def test_where_a_model_file_is_missing_its_download_is_offered(gpu, open_page):
    comfy = open_page(gpu)
    opened(comfy, "start_here", model="one-that-nobody-has")
    offer = offered(comfy.page)
    offer.get_by_text("one-that-nobody-has").first.wait_for(timeout=30_000)
    assert "Download" in offer.inner_text()

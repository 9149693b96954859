"""The search finds our blueprints by the names that other packs use, and the blueprints work."""

import pytest
from support.canvas_search import FOUND, SEARCH_BOX, add_by_search, found_by_search, open_search

from .test_fits import CUT, DRAWN

pytestmark = [pytest.mark.host, pytest.mark.browser]

CANVAS = pytest.mark.parametrize("nodes2", [False, True], ids=["classic", "nodes2"])
NAMES = ("Unload Model (Offload Model)", "Unload All Models (Purge VRAM)")
# A picture through one, a checkpoint into the other.
WIRED = """([one, all]) => {
  const add = (type, values, x, y) => {
    const node = LiteGraph.createNode(type);
    for (const [i, value] of values.entries()) node.widgets[i].value = value;
    node.pos = [x, y];
    return app.graph.add(node), node; };
  const named = name => app.graph._nodes.find(node => node.title === name);
  add("EmptyImage", [64, 64, 1, 0], 0, 500).connect(0, named(all), 0);
  add("CheckpointLoaderSimple", ["headroom_test_sd15.safetensors"], 0, 0).connect(0, named(one), 0);
  named(all).connect(0, add("PreviewImage", [], 1000, 500), 0); }"""


def test_unload_finds_offload_model_and_purge_vram_first(cpu_server, open_page):
    comfy = open_page(cpu_server)
    # The frontend orders what it finds by how often a node is used, once it has read how often.
    with comfy.page.expect_response("**/*node-map*"):
        comfy.reload()
    open_search(comfy)
    found = found_by_search(comfy, "unload", NAMES[0])
    assert NAMES[0] in found[0] and NAMES[1] in found[1]
    results = comfy.page.locator(FOUND)
    for own_name in ("Purge VRAM", "Offload Model"):
        comfy.page.get_by_placeholder(SEARCH_BOX).last.fill(own_name)
        comfy.until(lambda: results.first.inner_text().strip().startswith(own_name))  # noqa: B023


@CANVAS
def test_blueprints_that_unload_finds_run_and_cut_no_word(cpu_server, open_page, nodes2):
    comfy = open_page(cpu_server, nodes2=nodes2)
    comfy.page.evaluate("() => app.graph.clear()")
    for count, name in enumerate(NAMES, start=1):
        add_by_search(comfy, name)
        comfy.loaded(count)
    comfy.page.evaluate("() => app.graph._nodes.forEach((node, i) => node.pos = [450 * i, 0])")
    if nodes2:
        comfy.page.locator("[data-node-id]").nth(1).wait_for()
        assert comfy.page.evaluate(CUT) == []
    else:
        drawn = comfy.page.evaluate(DRAWN, 0)
        assert set(NAMES) <= set(drawn) and [text for text in drawn if "\u2026" in text] == []
    comfy.page.evaluate(WIRED, NAMES)
    run = comfy.run()
    assert run["status"] == "success"
    inside = {each["class_type"] for each in run["nodes"] if ":" in each["node_id"]}
    assert inside == {"HeadroomOffloadModel", "HeadroomPurgeVRAM"}

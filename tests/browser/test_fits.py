"""No text is cut off: in new nodes of default width, and in help in the narrowest sidebar.

So in our blueprints, which the search finds by the names that other packs use, and which work.
"""

import json
from pathlib import Path

import pytest
from support.browser import CANVAS
from support.canvas_search import FOUND, SEARCH_BOX, add_by_search, found_by_search, open_search
from support.prompts import picture

pytestmark = [pytest.mark.host, pytest.mark.browser]

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = json.loads((ROOT / "tests" / "contract.json").read_text(encoding="utf-8"))
WHERE = {"en": "Where it goes", "zh": "放在哪里"}
SIDEBAR = 254  # pixels of text in the narrowest sidebar that the page opens

# Nodes 2.0 of older frontends gives a new node the size of a removed one with the same id.
ADD_ALL = """ids => { app.graph.clear(); app.graph.last_node_id = 100;
for (const [i, id] of ids.entries()) {
  const node = LiteGraph.createNode(id);
  node.pos = [(i % 3) * 450, Math.floor(i / 3) * 400];
  app.graph.add(node);
} app.canvas.ds.scale = 1; app.canvas.ds.offset = [80, 140]; app.canvas.setDirty(true, true);
return app.graph._nodes.map(node => [node.title, node.size[0]]); }"""
# Names of widgets are P elements in older frontends, which give them 80 pixels however wide it is.
CUT = """() => [...document.querySelectorAll("[data-node-id] *:not(p)")]
  .map(e => [e, getComputedStyle(e)])
  .filter(([e, look]) => (e.children.length === 0 || look.textOverflow === "ellipsis")
    && e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1 && look.overflowX !== "visible")
  .map(([e]) => e)
  .map(e => `${e.closest("[data-node-id]").dataset.nodeId}: ${e.textContent || e.value}`)"""
# The classic canvas ends what it cuts with an ellipsis, so what it draws is looked through for one.
DRAWN = """width => { const drawn = [], own = CanvasRenderingContext2D.prototype.fillText;
  for (const node of app.graph._nodes) if (width) node.size[0] = width;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    drawn.push(String(text)); return own.call(this, text, ...more); };
  try { for (const node of app.graph._nodes) {
    app.canvas.ds.offset = [80 - node.pos[0], 140 - node.pos[1]];
    app.canvas.draw(true, true); } }
  finally { CanvasRenderingContext2D.prototype.fillText = own; }
  return drawn; }"""
WIDER = """pixels => { const page = document.querySelector("pre").parentElement;
  page.style.boxSizing = "content-box"; page.style.width = `${pixels}px`;
  return [...page.querySelectorAll("pre, table, img, h1, h2")]
    .filter(e => e.scrollWidth > e.clientWidth + 1
                 || e.getBoundingClientRect().right > page.getBoundingClientRect().right + 1)
    .map(e => `${e.tagName} ${e.scrollWidth}: ${e.textContent.slice(0, 60)}`); }"""


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


@pytest.fixture(scope="module", params=["en", "zh"])
def locale(request):
    """For the module, so that the tests of a language come together and share a page."""
    return request.param


def test_new_nodes_cut_no_title_value_or_button_in_nodes_2(cpu_server, open_page, locale):
    comfy = open_page(cpu_server, nodes2=True, locale=locale)
    widths = comfy.page.evaluate(ADD_ALL, list(CONTRACT))
    comfy.loaded(len(CONTRACT))
    comfy.page.locator("[data-node-id]").nth(len(CONTRACT) - 1).wait_for()
    badges = comfy.page.get_by_text("headroom", exact=True)
    assert badges.count() == len(CONTRACT)  # the frontend names the pack beside each title
    badges.evaluate_all("all => all.forEach(each => { each.textContent = 'headroom-nodes'; })")
    assert comfy.page.evaluate(CUT) == []
    assert all(width >= 300 for _, width in widths)


def test_new_nodes_cut_no_title_value_or_button_on_the_classic_canvas(
    cpu_server, open_page, locale
):
    comfy = open_page(cpu_server, nodes2=False, locale=locale)
    titles = {title for title, _ in comfy.page.evaluate(ADD_ALL, list(CONTRACT))}
    comfy.loaded(len(CONTRACT))
    drawn = comfy.page.evaluate(DRAWN, 0)
    assert titles <= set(drawn) and [text for text in drawn if "\u2026" in text] == []
    assert "undefined" not in drawn  # Load Conditioning, where nothing is saved yet
    assert any("\u2026" in text for text in comfy.page.evaluate(DRAWN, 90))


def test_the_drawings_of_every_help_page_fit_the_narrowest_sidebar(cpu_server, open_page, locale):
    comfy = open_page(cpu_server, locale=locale).load_prompt(picture())
    page = comfy.page
    page.evaluate(ADD_ALL, list(CONTRACT))
    comfy.loaded(len(CONTRACT))
    for index, (node_id, _) in enumerate(CONTRACT.items()):
        page.evaluate("i => { const node = app.graph._nodes[i]; app.canvas.centerOnNode(node); "
                      "app.canvas.selectItems([node]); }", index)
        page.get_by_test_id("info-button").click()
        page.get_by_role("heading", name=WHERE[locale]).wait_for()
        first = (ROOT / "js" / "docs" / node_id / f"{locale}.md").read_text(encoding="utf-8")
        page.get_by_text(first[:20].split("\n")[0].strip("*").split("**")[0]).first.wait_for()
        assert page.evaluate(WIDER, SIDEBAR) == [], node_id

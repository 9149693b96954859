"""Advice under a run: its cards; what Apply changes on the canvas; undo; a saved file."""

import json

import pytest
from support.browser import CANVAS
from support.canvas_files import assert_alike
from support.canvas_history import PROMPT, redo, settle, undo
from support.prompts import sampling

from tools.advice import apply_edit
from tools.node_info import node_infos
from tools.ui_prompt import api_prompt

pytestmark = [pytest.mark.host, pytest.mark.browser]


def insert(class_type, source, through, to, **links):
    return {"op": "insert", "ref": "a", "class_type": class_type, "inputs": {}, "from": source,
            "through": through, "out": 0, "to": to, "links": links}


ENCODE = {"op": "replace", "node": "2", "class_type": "HeadroomEncodeToCPU",
          "keep": {"clip": "clip", "text": "text"}, "inputs": {"cache": "disk"},
          "outputs": {"0": 0}}
PURGE = insert("HeadroomPurgeVRAM", ["4", 0], "value", [["5", "samples"]], keep=["2", 0])
GUARD = insert("HeadroomOOMGuard", ["1", 0], "model", [["4", "model"]])


def advice(kind, *steps, saves=(500.0, 800.0)):
    return {"id": kind, "kind": kind, "text": f"Advice of the kind {kind}.", "values": {},
            "saves_mib": list(saves), "measured_on": {}, "node_ids": ["2"], "cost": "seconds",
            "changes_picture": False, "edit": {"steps": list(steps)}, "measured_mib": None}


ADVICE = [advice("encode_to_cpu", ENCODE), advice("purge_between", PURGE),
          advice("oom_guard", GUARD, saves=(1.0, 2.0))]
# What stays of the user's nodes; a replaced one has another class and more widgets.
NODES = """() => Object.fromEntries(app.graph.nodes.map(n =>
  [n.id, { title: n.title, values: Object.fromEntries(n.widgets?.map(w => [w.name, w.value]) ?? []),
           place: [...n.pos] }]))"""
SELECTED = "() => [...app.canvas.selectedItems].map(n => n.comfyClass).sort()"
OVERLAPS = """() => { const boxes = app.canvas.graph.nodes.map(n =>
    [n.title, n.pos[0], n.pos[1] - 30, n.size[0], n.size[1] + 30]);
  for (const { pos: [x, y], size: [w, h], titleHeight } of app.canvas.graph.groups)
    boxes.push(["its title", x, y, w, titleHeight],
               ["its edge", x + w, y + titleHeight, 0, h - titleHeight]);
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => a[1] < b[1] + b[3]
    && b[1] < a[1] + a[3] && a[2] < b[2] + b[4] && b[2] < a[2] + a[4]).map(b => [a[0], b[0]])); }"""
TITLES = {"encode_to_cpu": "Encode to CPU", "purge_between": "Purge VRAM", "oom_guard": "OOM Guard"}
PLACES = {"1": (0, 0), "2": (400, 0), "3": (0, 400), "4": (900, 0), "5": (1400, 0), "6": (1800, 0)}
ARRANGE = """places => { const workflow = app.graph.serialize();
  for (const node of workflow.nodes) node.pos = places[node.id];
  workflow.groups = [{ title: "Text", bounding: [320, -110, 460, 350], color: "#3f789e" }];
  return app.loadGraphData(workflow); }"""


@pytest.fixture
def advised(sim, open_page):
    """A page with a finished run in its panel, and this advice on it."""

    def show(seed, items, **options):
        comfy = open_page(sim(4096), **options).load_prompt(sampling(seed=seed))
        comfy.page.evaluate(ARRANGE, PLACES)
        comfy.loaded(6)
        settle(comfy)
        comfy.page.route("**/headroom/runs/*/advice", lambda route: route.fulfill(json=items))
        comfy.page.route("**/headroom/runs/*/advice?into_gib=*", lambda route: route.fulfill(
            json=[{**each, "expected_mib": [100.0, 200.0]} for each in items[:2]]))
        panel = comfy.open_panel()
        comfy.run()
        panel.locator("[data-advice]").nth(len(items) - 1).wait_for()
        settle(comfy)
        return comfy, panel

    return show


def press_apply(comfy, panel, kind):
    panel.locator(f"[data-advice='{kind}']").get_by_role("button", name="Apply").click()
    comfy.told(f"Applied: {TITLES[kind]}")


@CANVAS
def test_apply_is_one_step_of_undo_and_leaves_the_users_nodes_as_they_were(advised, nodes2):
    comfy, panel = advised(200 + nodes2, ADVICE, nodes2=nodes2)
    page = comfy.page
    prompt, nodes = page.evaluate(PROMPT), page.evaluate(NODES)
    for kind in ("encode_to_cpu", "purge_between", "oom_guard"):
        press_apply(comfy, panel, kind)
    comfy.loaded(8)
    after = page.evaluate(PROMPT)
    assert {key: after[key]["class_type"] for key in ("2", "7", "8")} == {
        "2": "HeadroomEncodeToCPU", "7": "HeadroomPurgeVRAM", "8": "HeadroomOOMGuard"}
    assert after["2"]["inputs"]["text"] == prompt["2"]["inputs"]["text"]
    assert after["2"]["inputs"]["cache"] == "disk"
    assert after["5"]["inputs"]["samples"] == ["7", 0]
    assert after["7"]["inputs"]["value"] == ["4", 0] and after["7"]["inputs"]["keep"] == ["2", 0]
    assert after["4"]["inputs"]["model"] == ["8", 0] and after["8"]["inputs"]["model"] == ["1", 0]
    now = page.evaluate(NODES)
    for key, node in nodes.items():
        assert now[key]["title"] == node["title"]
        assert key == "2" or now[key] == node
    assert page.evaluate(SELECTED) == ["HeadroomOOMGuard"]
    assert page.evaluate(OVERLAPS) == []
    settle(comfy)  # nothing but the three steps is there
    undo(comfy, lambda now: "8" not in now)
    assert "7" in page.evaluate(PROMPT)
    undo(comfy, lambda now: "7" not in now)
    assert page.evaluate(PROMPT)["2"]["class_type"] == "HeadroomEncodeToCPU"
    undo(comfy, lambda now: now == prompt)
    redo(comfy, lambda now: now["2"]["class_type"] == "HeadroomEncodeToCPU")
    redo(comfy, lambda now: "7" in now)
    redo(comfy, lambda now: now == after)


def test_an_applied_workflow_is_saved_loaded_again_and_runs(advised):
    comfy, panel = advised(210, ADVICE)
    press_apply(comfy, panel, "encode_to_cpu")
    press_apply(comfy, panel, "oom_guard")
    prompt = comfy.page.evaluate(PROMPT)
    saved = comfy.page.evaluate("() => JSON.stringify(app.graph.serialize())")
    comfy.reload()
    comfy.page.wait_for_function(DRAFT)  # the frontend brings its own back
    comfy.load_workflow(json.loads(saved), 7)
    assert comfy.page.evaluate(PROMPT) == prompt
    assert comfy.run()["status"] == "success"


def test_make_it_fit_takes_only_what_is_needed_in_one_step(advised):
    comfy, panel = advised(220, ADVICE)
    prompt = comfy.page.evaluate(PROMPT)
    panel.get_by_text("Make it fit …").click()
    size = panel.get_by_label("GPU memory in GiB")
    size.fill("0.75")
    size.press("Tab")
    form = panel.locator(".headroom-fit")
    form.get_by_text("then the run may need 100 MiB to 200 MiB").wait_for()
    assert "Encode to CPU, Purge VRAM" in form.get_by_role("status").inner_text()
    form.get_by_role("button", name="Apply").click()
    comfy.loaded(7)
    comfy.told("Encode to CPU, Purge VRAM")
    settle(comfy)
    undo(comfy, lambda now: now == prompt)


def test_advice_for_an_older_canvas_is_refused_and_changes_nothing(advised):
    unknown = advice("cast_bf16", {**GUARD, "class_type": "HeadroomGone"})  # of a newer server
    comfy, panel = advised(230, [*ADVICE[:2], unknown])
    press_apply(comfy, panel, "encode_to_cpu")
    before = comfy.page.evaluate(PROMPT)
    panel.locator("[data-advice='encode_to_cpu']").get_by_role("button", name="Apply").click()
    comfy.told("This is in the workflow already")
    comfy.page.evaluate("() => app.graph.remove(app.graph.getNodeById(5))")
    panel.locator("[data-advice='purge_between']").get_by_role("button", name="Apply").click()
    comfy.told("#5 is not on this canvas")
    panel.locator("[data-advice='cast_bf16']").get_by_role("button", name="Apply").click()
    comfy.told("This page does not know the node")
    comfy.page.wait_for_timeout(500)  # an undo would be over
    del before["5"], before["6"]["inputs"]["images"]
    assert comfy.page.evaluate(PROMPT) == before


DRAFT = "() => app.graph._nodes.some(node => node.comfyClass === 'HeadroomOOMGuard')"
INTO_SUBGRAPH = """async () => { const nodes = [2, 4].map(id => app.graph.getNodeById(id));
  const made = app.graph.convertToSubgraph(new Set(nodes)); app.canvas.setDirty(true, true);
  return made.node.id; }"""


def test_in_a_subgraph_the_nodes_stand_inside_and_one_undo_takes_them_back(sim, open_page):
    """In Nodes 2.0, which tells the sizes of new nodes late; the classic canvas is simpler."""
    gpu = sim(4096)
    comfy = open_page(gpu, nodes2=True).load_prompt(sampling(seed=240))
    page = comfy.page
    holder = page.evaluate(INTO_SUBGRAPH)
    comfy.loaded(5)
    settle(comfy)
    inner = [{**ENCODE, "node": f"{holder}:2"},
             insert("HeadroomOffloadModel", ["1", 0], "model", [[f"{holder}:4", "model"]],
                    after=["3", 0])]
    page.route("**/headroom/runs/*/advice",
               lambda route: route.fulfill(json=[advice("encode_to_cpu", *inner)]))
    panel = comfy.open_panel()
    assert comfy.run()["status"] == "success"
    settle(comfy)
    prompt, file = page.evaluate(PROMPT), page.evaluate("() => app.graph.serialize()")
    press_apply(comfy, panel, "encode_to_cpu")
    after = page.evaluate(PROMPT)
    infos = node_infos(gpu.client.get_json("/object_info"))  # `dev.py advise` does the same
    edited = apply_edit(api_prompt(file, infos), {"steps": inner})
    for key in edited.keys() - prompt.keys() | {inner[0]["node"]}:  # the page shows every widget
        begin = {one.name: one.default for one in infos[edited[key]["class_type"]].widgets}
        edited[key]["inputs"] = {**begin, **edited[key]["inputs"]}
    assert_alike(prompt, after, edited)
    new = next(key for key, each in after.items() if each["class_type"] == "HeadroomOffloadModel")
    assert new.startswith(f"{holder}:")
    assert after[f"{holder}:2"]["class_type"] == "HeadroomEncodeToCPU"
    assert after[f"{holder}:2"]["inputs"]["text"] == prompt[f"{holder}:2"]["inputs"]["text"]
    assert after[f"{holder}:4"]["inputs"]["model"] == [new, 0]
    assert after[new]["inputs"]["model"] == ["1", 0] and after[new]["inputs"]["after"] == ["3", 0]
    assert page.evaluate(OVERLAPS) == []
    settle(comfy)
    undo(comfy, lambda now: now == prompt)
    redo(comfy, lambda now: now == after)
    assert comfy.run()["status"] == "success"


TWO_INSTANCES = """() => { const encode = app.graph.getNodeById(2);
  const { node: holder } = app.graph.convertToSubgraph(new Set([encode]));
  const inner = holder.subgraph, node = inner.nodes[0];
  inner.addInput('text', 'STRING');
  inner.inputs.at(-1).connect(node.inputs.find(input => input.name === 'text'), node);
  const other = LiteGraph.createNode(inner.id);
  app.graph.add(other);
  app.graph.getNodeById(1).connect(1, other, 0);
  other.connect(0, app.graph.getNodeById(4), 'negative');
  [holder, other].forEach((one, at) => {
    one.widgets.find(widget => widget.name === 'text').value = ['a cat', 'a dog'][at]; });
  return [holder.id, other.id]; }"""


def test_two_instances_of_a_subgraph_keep_their_texts_when_a_node_in_it_changes(sim, open_page):
    comfy = open_page(sim(4096)).load_prompt(sampling(seed=250))
    page = comfy.page
    inner = [f"{holder}:2" for holder in page.evaluate(TWO_INSTANCES)]
    settle(comfy)
    page.route("**/headroom/runs/*/advice", lambda route: route.fulfill(json=[
        advice("encode_to_cpu", *({**ENCODE, "node": node} for node in inner))]))
    panel = comfy.open_panel()
    comfy.run()
    settle(comfy)
    before = page.evaluate(PROMPT)
    press_apply(comfy, panel, "encode_to_cpu")
    after = page.evaluate(PROMPT)
    for node in inner:
        assert after[node]["class_type"] == "HeadroomEncodeToCPU"
        assert after[node]["inputs"]["text"] == before[node]["inputs"]["text"]
    settle(comfy)
    undo(comfy, lambda now: now == before)

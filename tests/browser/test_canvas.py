"""On the canvas of a CPU server: finding nodes, help, settings, languages, reloading."""

import json
from pathlib import Path

import pytest
from support.browser import CANVAS, TAB_BUTTON
from support.canvas_search import FOUND, add_by_search, first_of, found_by_search, open_search
from support.prompts import node, picture

pytestmark = [pytest.mark.host, pytest.mark.browser]

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = json.loads((ROOT / "tests" / "contract.json").read_text(encoding="utf-8"))


# What is on the canvas as a workflow of its own, with the id that a saved one has.
AS_ANOTHER = """() => { const w = app.graph.serialize(); w.id = crypto.randomUUID();
  return app.loadGraphData(w); }"""
SLOTS = """() => { const node = app.graph.getNodeById(2);
  const shown = slots => slots.map(each => each.label || each.localized_name || each.name);
  return { inputs: shown(node.inputs), outputs: shown(node.outputs), widgets: shown(node.widgets) };
}"""


def open_settings(comfy) -> None:
    page = comfy.page
    page.evaluate("() => app.extensionManager.command.execute('Comfy.ShowSettingsDialog')")
    newer = page.get_by_role("dialog").locator("nav").get_by_role("button", name="Headroom")
    page.get_by_role("option", name="Headroom").or_(newer).click()


def test_every_node_is_found_by_its_name(cpu_server, open_page):
    comfy = open_page(cpu_server)
    box = open_search(comfy)
    for name in [each["display_name"] for each in CONTRACT.values()]:
        box.fill(name)
        first = comfy.page.locator(FOUND).first
        comfy.until(lambda: first.inner_text().strip().startswith(name))  # noqa: B023


@CANVAS
def test_a_node_that_was_found_is_added(cpu_server, open_page, nodes2):
    comfy = open_page(cpu_server, nodes2=nodes2)
    comfy.page.evaluate("() => app.graph.clear()")
    add_by_search(comfy, "Purge VRAM")
    comfy.loaded(1)
    assert comfy.page.evaluate("() => app.graph._nodes[0].comfyClass") == "HeadroomPurgeVRAM"
    [saved] = comfy.page.evaluate("() => app.graph.serialize().nodes")
    assert saved["properties"]["cnr_id"] == "headroom-nodes"  # for servers without this pack


@pytest.mark.parametrize("node_id", CONTRACT)
def test_every_help_page_is_served_in_both_languages(cpu_server, node_id):
    client = cpu_server.client()
    for path in (f"{node_id}.md", f"{node_id}/zh.md"):
        page = client.get_bytes(f"/extensions/headroom/docs/{path}").decode("utf-8")
        assert "\n## " in page and not page.startswith("# ")  # the frontend writes the node's name


@CANVAS
def test_badges_show_the_time_of_each_node_and_survive_a_reload_of_the_workflow(
    cpu_server, open_page, nodes2
):
    comfy = open_page(cpu_server, nodes2=nodes2).load_prompt(picture(seed=2 + nodes2))
    comfy.page.evaluate(AS_ANOTHER)
    comfy.loaded(3)
    run = comfy.run()
    comfy.until(lambda: comfy.badges()["3"])
    assert run["status"] == "success"
    comfy.page.evaluate("() => app.loadGraphData(app.graph.serialize())")
    comfy.loaded(3)
    comfy.until(lambda: comfy.badges()["3"])


def test_badges_of_an_api_prompt_are_there_again_with_its_tab(cpu_server, open_page):
    comfy = open_page(cpu_server).load_prompt(picture(seed=8))
    comfy.run()
    comfy.until(lambda: comfy.badges()["3"])
    for command, count in (("Comfy.NewBlankWorkflow", 0), ("Workspace.PreviousOpenedWorkflow", 3)):
        comfy.page.evaluate("name => app.extensionManager.command.execute(name)", command)
        comfy.loaded(count)
    comfy.until(lambda: comfy.badges()["3"])


def test_badges_can_be_switched_off_and_on(cpu_server, open_page):
    comfy = open_page(cpu_server).load_prompt(picture(seed=5))
    comfy.run()
    comfy.until(lambda: comfy.badges()["3"])
    comfy.set("Headroom.Badges.Show", False)
    assert comfy.badges()["3"] == []
    comfy.until(lambda: not comfy.waiting)
    comfy.asked.clear()
    ended = comfy.listen("execution_success")
    comfy.queue()
    comfy.until(ended)
    assert comfy.asked == []  # nobody sees what a run took
    comfy.set("Headroom.Badges.Show", True)
    assert comfy.badges()["3"] != []


def test_the_command_shows_the_panel_and_hides_it(cpu_server, open_page):
    comfy = open_page(cpu_server)
    panel = comfy.page.locator(".headroom-panel")
    for state in ("attached", "detached"):
        comfy.page.evaluate("() => app.extensionManager.command.execute('Headroom.ShowPanel')")
        panel.wait_for(state=state)


def test_new_nodes_start_with_the_values_from_the_settings_and_loaded_ones_keep_theirs(
    cpu_server, open_page
):
    comfy = open_page(cpu_server)
    read = "() => app.graph._nodes.at(-1).widgets.find(w => w.name === 'unload').value"
    comfy.set("Headroom.Defaults.PurgeVRAMUnload", "no models")
    add_by_search(comfy, "Purge VRAM")
    added = comfy.page.evaluate(read)
    workflow = comfy.load_prompt(picture()).page.evaluate("() => app.graph.serialize()")
    comfy.load_workflow(workflow, 3)
    loaded = comfy.page.evaluate(read.replace("_nodes.at(-1)", "getNodeById(2)"))
    comfy.set("Headroom.Defaults.PurgeVRAMUnload", "all models")
    assert (added, loaded) == ("no models", "all models")


def test_a_chosen_language_is_shown_by_an_open_panel_and_badges_at_once(cpu_server, open_page):
    comfy = open_page(cpu_server).load_prompt(picture(seed=9))
    comfy.set("Headroom.Panel.RefreshSeconds", 30)
    comfy.run()
    comfy.run()
    comfy.until(lambda: comfy.badges()["1"] == ["cached"])
    panel = comfy.open_panel()
    panel.locator("tr[data-node]").first.wait_for()
    comfy.until(comfy.is_quiet)
    asked = len(comfy.asked)
    comfy.set("Comfy.Locale", "zh")
    panel.get_by_role("heading", name="已加载的模型").wait_for()
    comfy.until(lambda: comfy.badges()["1"] == ["已缓存"])
    assert len(comfy.asked) == asked
    comfy.set("Comfy.Locale", "en")
    panel.get_by_role("heading", name="Loaded models").wait_for()


def test_after_a_reload_there_is_still_one_tab_one_style_sheet_and_one_badge(cpu_server, open_page):
    comfy = open_page(cpu_server)
    comfy.reload().load_prompt(picture(seed=7))
    comfy.run()
    comfy.until(lambda: comfy.badges()["3"])
    page = comfy.page
    assert page.locator(TAB_BUTTON).count() == 1
    assert page.locator("link[href*='headroom.css']").count() == 1
    assert comfy.badges()["3"] == comfy.badges()["3"][-1:]
    assert comfy.open_panel().locator("tr[data-node]").count() == 3


def test_every_script_is_a_module_of_few_bytes(cpu_server):
    client = cpu_server.client()
    listed = [path for path in client.get_json("/extensions") if "/headroom/" in path]
    assert sorted(listed) == sorted(
        f"/extensions/headroom/{path.relative_to(ROOT / 'js').as_posix()}"
        for path in (ROOT / "js").rglob("*.js")
    )
    assert sum(len(client.get_bytes(path)) for path in listed) < 150_000  # a fifth of it Chinese


# A name that holds the word comes first in the frontend; aliases decide what is found, not where.
# "unload" leads to blueprints that have it in their names: see `test_fits.py`.
SEARCHED = {
    "low vram": 1, "save memory": 1, "free memory": 1, "gpu": 3, "cuda": 3,
}


def test_words_that_people_search_for_find_the_nodes_that_free_memory(cpu_server, open_page):
    known = cpu_server.client().get_json("/object_info/HeadroomPurgeVRAM")["HeadroomPurgeVRAM"]
    comfy = open_page(cpu_server, locale="zh")
    open_search(comfy)
    found = found_by_search(comfy, "显存", "显存清理")
    assert "显存清理" in found[0] and "显存不足守护" in found[1]
    if "search_aliases" not in known:
        pytest.skip("this ComfyUI tells the page no other words for a node than its name")
    for words, at_worst in SEARCHED.items():
        found = found_by_search(comfy, words, "显存清理")
        assert first_of(found, "显存清理", "卸载模型", "显存不足守护") <= at_worst, words


def test_a_chinese_canvas_shows_chinese_names_and_panel(cpu_server, open_page):
    comfy = open_page(cpu_server, locale="zh").load_prompt(picture(seed=6))
    titles = comfy.page.evaluate("() => app.graph._nodes.map(n => n.title)")
    assert "显存清理" in titles
    purge = comfy.page.evaluate(SLOTS)
    assert "值" in purge["inputs"] and "释放量（MiB）" in purge["outputs"]
    assert "仅当空闲低于（MiB）" in purge["widgets"]
    assert "已加载的模型" in comfy.open_panel().inner_text()


REPORTS = {
    "2": node("HeadroomMoveToCPU", value=["1", 0]), "3": node("PreviewAny", source=["2", 1]),
    "4": node("HeadroomMemoryReport", value=["2", 0]), "5": node("PreviewAny", source=["4", 1]),
}
SHOWN = "id => app.graph.getNodeById(id).widgets.map(w => w.value).find(v => v?.length > 9)"


@CANVAS
def test_widgets_of_other_packs_keep_what_the_server_sent_them_in_every_language(
    cpu_server, open_page, nodes2
):
    comfy = open_page(cpu_server, locale="zh", nodes2=nodes2)
    comfy.load_prompt({**REPORTS, "1": node("EmptyImage", width=8, height=8, batch_size=1,
                                            color=3 + nodes2)})
    run = comfy.run()
    told = comfy.get(f"/history/{run['prompt_id']}")[run["prompt_id"]]["outputs"]
    for key in ("3", "5"):
        [sent] = told[key]["text"]
        comfy.until(lambda: comfy.page.evaluate(SHOWN, int(key)) == sent)  # noqa: B023


def test_the_settings_are_in_chinese_too(cpu_server, open_page):
    comfy = open_page(cpu_server, locale="zh")
    open_settings(comfy)
    words = ROOT / "locales" / "zh" / "settings.json"
    for setting in json.loads(words.read_text(encoding="utf-8")).values():
        comfy.page.get_by_text(setting["name"], exact=True).first.wait_for()
        for choice in list(setting.get("options", {}).values())[:1]:  # the default
            comfy.page.get_by_text(choice, exact=True).first.wait_for()
    comfy.set("Headroom.Rescue.AfterOutOfMemory", "run it again")
    comfy.page.get_by_text("重新运行", exact=True).first.wait_for()
    comfy.set("Headroom.Rescue.AfterOutOfMemory", "offer to run it again")

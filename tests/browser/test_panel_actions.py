"""What the panel's buttons, its command and a key that the user has bound do on the server."""

import json
from pathlib import Path

import pytest
from support.browser import TAB_BUTTON
from support.canvas_history import FRAME
from support.prompts import sampling

pytestmark = [pytest.mark.host, pytest.mark.browser]


@pytest.fixture
def gpu(sim):
    return sim(4096)


def test_while_a_prompt_runs_purge_and_offload_cannot_be_pressed(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=40, size=256))
    panel = comfy.open_panel()
    comfy.queue()
    comfy.until(lambda: comfy.get("/headroom/memory")["busy"])
    # One look at both: the prompt may end between two.
    comfy.until(lambda: panel.evaluate("panel => panel.querySelector('.headroom-primary').disabled"
                                       " && !panel.querySelector('[data-model] button:enabled')"))
    comfy.until(lambda: not comfy.get("/headroom/memory")["busy"], timeout=240)
    comfy.until(lambda: panel.locator(".headroom-primary").is_enabled())


def test_before_a_run_the_panel_says_whether_the_open_workflow_fits_and_after_it_what_it_took(
    gpu, open_page
):
    prompt = sampling(seed=36, size=104)  # which no other test has run on this server
    comfy = open_page(gpu).load_prompt(prompt)
    panel = comfy.open_panel()
    ran = len(comfy.get("/headroom/runs")["runs"])
    ask = panel.get_by_role("button", name="Will it fit this card?")
    ask.click()
    told = panel.locator(".headroom-estimate")
    told.get_by_text("Model files: ").wait_for()
    assert told.get_by_text("It fits: ").is_visible()
    assert told.get_by_text("headroom-fit").is_visible()
    assert len(comfy.get("/headroom/runs")["runs"]) == ran  # nothing was queued
    comfy.run()
    ask.click()
    told.get_by_text("A run of the same nodes, files and sizes took ").wait_for()


def test_one_button_saves_a_bug_report_with_the_page_s_part_and_without_the_prompt(gpu, open_page):
    prompt = sampling(seed=35)
    prompt["2"]["inputs"]["text"] = "my grandmother"
    comfy = open_page(gpu).load_prompt(prompt)
    run = comfy.run()
    panel = comfy.open_panel()
    with comfy.page.expect_download() as download:
        panel.get_by_role("button", name="Save a bug report").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    report = json.loads(text)
    assert download.value.suggested_filename == "headroom-bug-report.json"
    assert report["runs"][0]["prompt_id"] == run["prompt_id"]
    assert report["browser"]["settings"]["Headroom.Badges.Show"] is True
    assert report["browser"]["frontend"].count(".") == 2
    assert "grandmother" not in text


BINDING = {"commandId": "Headroom.Purge", "combo": {"key": "h", "ctrl": True, "shift": True}}


def press(comfy):
    comfy.page.locator("canvas#graph-canvas").focus()
    comfy.page.keyboard.press("Control+Shift+H")


def test_no_key_purges_until_the_user_has_bound_one(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=33))
    press(comfy)
    comfy.page.evaluate(FRAME)
    assert comfy.asked == []


def test_purge_by_button_command_or_key_unloads_the_models_and_says_what_it_freed(gpu, open_page):
    comfy = open_page(gpu, Comfy__Keybinding__NewBindings=[BINDING])
    panel = comfy.open_panel()
    ways = {
        30: lambda: panel.locator(".headroom-primary").click(),
        31: lambda: comfy.page.evaluate(
            "() => app.extensionManager.command.execute('Headroom.Purge')"),
        32: lambda: press(comfy),
    }
    for seed, purge in ways.items():
        comfy.load_prompt(sampling(seed=seed)).run()
        assert comfy.get("/headroom/memory")["devices"][0]["models_mib"] > 0
        comfy.until(lambda: panel.locator(".headroom-primary").is_enabled())
        comfy.forget_messages()
        purge()
        comfy.told("MiB of VRAM freed")
        assert comfy.get("/headroom/memory")["devices"][0]["models_mib"] == 0


def test_turned_off_the_page_has_no_panel_no_command_and_no_badge_and_the_setting_to_undo_it(
    gpu, open_page
):
    comfy = open_page(gpu, Headroom__Server__Off=True).load_prompt(sampling(seed=34))
    asked = []
    comfy.page.on("request", lambda request: asked.append(request.url))
    comfy.run()
    comfy.page.evaluate(FRAME)
    assert comfy.page.locator(TAB_BUTTON).count() == 0
    commands = comfy.page.evaluate("() => app.extensionManager.command.commands.map(c => c.id)")
    assert [name for name in commands if name.startswith("Headroom")] == []
    assert not any(comfy.badges().values())
    assert [url for url in asked if "/headroom/" in url.split("/extensions/")[0]] == []
    comfy.set("Headroom.Server.Off", False)
    comfy.reload()
    comfy.page.locator(TAB_BUTTON).wait_for()

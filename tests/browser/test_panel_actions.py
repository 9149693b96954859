"""What the panel's buttons, its command and a key that the user has bound do on the server.

So does the button of an offer: a run that ran out of memory runs again, and its picture appears.
"""

import json
import re
from pathlib import Path

import pytest
from support.browser import TAB_BUTTON
from support.canvas_history import FRAME
from support.prompts import sampling
from support.timed import node

pytestmark = [pytest.mark.host, pytest.mark.browser]


@pytest.fixture
def gpu(sim):
    return sim(4096)


def test_while_a_prompt_runs_purge_and_offload_cannot_be_pressed(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=40))
    panel = comfy.open_panel()
    comfy.run()
    offload = panel.locator("[data-model] button")
    comfy.until(lambda: offload.count() and offload.first.is_enabled())
    prompt_id = gpu.client.queue({"1": node("TimedWork", 60)})
    comfy.until(lambda: panel.evaluate("panel => panel.querySelector('.headroom-primary').disabled"
                                       " && !panel.querySelector('[data-model] button:enabled')"))
    gpu.client.interrupt()
    gpu.client.wait(prompt_id)
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


def test_of_an_empty_canvas_nothing_is_asked_and_the_user_is_told_so(gpu, open_page):
    comfy = open_page(gpu)
    panel = comfy.open_panel()
    comfy.page.evaluate("() => app.graph.clear()")
    panel.get_by_role("button", name="Will it fit this card?").click()
    comfy.told("no node on the canvas that can run")


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


def fails_once(gpu, comfy):
    gpu.arm_fault(above_bytes=100_000, times=1)
    run = comfy.run()
    gpu.disarm()
    assert run["status"] == "error" and run["failure"]["can_rescue"]
    return run


SAYS = "([what, detail]) => app.api.dispatchCustomEvent(`headroom.${what}`, detail)"


def test_a_page_that_stayed_open_while_the_server_was_killed_shows_what_it_left_and_what_is_new(
    gpu, open_page
):
    comfy = open_page(gpu).load_prompt(sampling(seed=95))
    comfy.run()
    panel = comfy.open_panel()
    panel.locator("[data-run]").wait_for()
    comfy.until(comfy.is_quiet)
    failure = {"can_rescue": True, "text": "Of the killed server.", "said": None}
    comfy.page.evaluate(SAYS, ["rescue", {"prompt_id": "gone", "failure": failure}])
    (offer := comfy.page.locator("[data-offer]")).wait_for()
    left = {"text": "1 prompt had not run.", "said": None, "prompts": [{"prompt_id": "a"}]}
    comfy.page.route("**/headroom/queue", lambda route: route.fulfill(json=left))
    comfy.page.route("**/headroom/runs?*", lambda route: route.fulfill(json={"runs": []}))
    comfy.page.evaluate("() => app.api.socket.close()")  # the page connects again by itself
    (box := comfy.page.locator(".headroom-left")).get_by_text("1 prompt had not run.").wait_for()
    panel.get_by_text("No run yet").wait_for()
    offer.wait_for(state="detached")
    left["prompts"] = []
    comfy.page.evaluate(SAYS, ["queue", {}])  # somebody has decided in another window
    box.wait_for(state="hidden")


def second_run(comfy, first_id):
    second_id = comfy.until(lambda: comfy.get(f"/headroom/runs/{first_id}")["rescued_as"])
    return comfy.until(lambda: ended(comfy.get(f"/headroom/runs/{second_id}")))


def close_the_hosts_dialog(comfy):
    comfy.page.keyboard.press("Escape")  # about the error
    comfy.page.locator(".p-dialog-mask").wait_for(state="detached")


def ended(run):
    return run if run.get("status") not in (None, "running") else None


def test_the_button_of_the_offer_gives_the_picture(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=60))
    run = fails_once(gpu, comfy)
    offer = comfy.page.locator(f"[data-offer='{run['prompt_id']}']")
    offer.wait_for()
    words = offer.inner_text()
    assert "KSampler" in words or "CLIP" in words
    assert "ran out of GPU memory" in words and "asking for" in words
    offer.get_by_role("button", name="Run again with OOM Guard").click()
    second = second_run(comfy, run["prompt_id"])
    assert second["status"] == "success"
    assert second["rescued_from"] == run["prompt_id"]
    offer.wait_for(state="detached")
    comfy.page.wait_for_function(
        "() => Object.values(app.nodeOutputs ?? {}).some(out => out.images?.length)")
    assert comfy.page.evaluate("() => app.graph._nodes.length") == 6  # the user's own, nothing more


def test_set_to_run_again_a_rerun_needs_no_button_and_is_announced(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=80))
    comfy.set("Headroom.Rescue.AfterOutOfMemory", "run it again")
    gpu.arm_fault(above_bytes=100_000, times=1)
    comfy.queue()
    comfy.told("it runs again with OOM Guard")
    run = comfy.until(lambda: next(
        (one for one in comfy.get("/headroom/runs")["runs"] if one["rescued_from"]
         and one["status"] == "success"), None))
    gpu.disarm()
    assert run["nodes"]
    assert comfy.page.locator("[data-offer]").count() == 0


def test_set_to_nothing_a_run_gets_no_offer_and_offers_are_in_chinese(gpu, open_page):
    comfy = open_page(gpu, locale="zh").load_prompt(sampling(seed=90))
    comfy.set("Headroom.Rescue.AfterOutOfMemory", "nothing")
    fails_once(gpu, comfy)
    assert comfy.page.locator("[data-offer]").count() == 0
    comfy.set("Headroom.Rescue.AfterOutOfMemory", "offer to run it again")
    comfy.load_prompt(sampling(seed=91))
    run = fails_once(gpu, comfy)
    offer = comfy.page.locator(f"[data-offer='{run['prompt_id']}']")
    offer.get_by_role("button", name="使用 OOM Guard 重新运行").wait_for()
    offer_words = offer.inner_text()
    assert "运行时显存不足，请求" in offer_words and not ENGLISH.search(offer_words)
    comfy.page.locator(".headroom-toast").get_by_role("button", name="关闭").click()
    offer.wait_for(state="detached")
    fails_twice_in_chinese(gpu, comfy, run["prompt_id"])


# Three words in a row: names of models, nodes and options are fewer.
ENGLISH = re.compile(r"[A-Za-z]{2,}(?: [a-z]{2,}){2,}")


def fails_twice_in_chinese(gpu, comfy, first_id):
    close_the_hosts_dialog(comfy)
    panel = comfy.open_panel()
    gpu.arm_fault(above_bytes=100_000)
    panel.locator(f"[data-rescue='{first_id}'] button").click()
    second = second_run(comfy, first_id)
    gpu.disarm()
    assert second["status"] == "error" and second["gave_up"]
    entry = panel.locator(f"[data-rescue='{second['prompt_id']}']")
    entry.filter(has_text="重新运行时同样内存不足").wait_for()  # until then: that it is a rerun
    entry.filter(has_text="第一次运行时").wait_for()
    panel.locator(".headroom-gave-up").first.wait_for()
    comfy.told("重新运行时同样内存不足")
    told = [text for text in comfy.page.evaluate("() => told") if "Version Compat" not in text]
    for words in [panel.inner_text(), *told]:
        assert not ENGLISH.search(words), ENGLISH.search(words)

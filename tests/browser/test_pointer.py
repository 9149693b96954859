"""The panel with a pointer and with keys: everything it draws, every event it listens to."""

import pytest
from support.panel_answers import ADVICE

pytestmark = pytest.mark.browser

FAILURES = 50
STOP = """() => { const { activeElement: at } = document;
  return at === document.body ? "the page" : at.closest("svg") ? "in the timeline"
    : at.dataset.focus ?? at.textContent; }"""


def drawn(shown):
    """The whole panel, with all that is folded up in it open."""
    shown.panel.locator(".headroom-chart").wait_for()
    for summary in shown.panel.locator("summary").all():
        summary.click()
    return shown


def test_the_line_below_the_timeline_says_what_is_under_the_pointer(open_panel):
    shown = drawn(open_panel())
    box = shown.panel.locator(".headroom-chart").bounding_box()
    readout = shown.panel.locator(".headroom-readout")
    shown.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 30)
    assert readout.inner_text() == "2.5 s · VRAM 250 MiB · RAM 12 MiB · Node 2"
    shown.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 30)
    assert readout.inner_text() == "6.0 s · VRAM – · RAM 20 MiB · Node 3"
    shown.page.mouse.move(box["x"] + 30, box["y"] + box["height"] + 300)
    assert readout.inner_text().strip() == ""


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_a_pointer_or_key_reaches_every_listener_and_each_does_what_it_says(open_panel, locale):
    shown = drawn(open_panel(locale=locale))
    panel, page = shown.panel, shown.page
    shown.move_over(".headroom-panel")
    panel.locator(".headroom-band[data-node='2']").click()
    for failed_stopped_or_cached in ("3", "4", "5"):
        panel.locator(f"tr[data-node='{failed_stopped_or_cached}'] td").last.click()
    panel.locator("tr[data-node='6'] button").click()
    panel.locator("[data-advice='oom_guard'] button").last.click()
    assert page.evaluate("() => picked") == ["2", "3", "4", "5", "6", "1"]
    panel.locator("[data-advice='encode_to_cpu'] button").first.click()
    size = panel.locator(".headroom-size")
    size.fill("0.75")
    size.press("Tab")
    form = panel.locator(".headroom-fit [role='status']:not(:empty)")
    form.wait_for()
    panel.locator(".headroom-apply:enabled").click()
    planned = [item["id"] for item in ADVICE]
    assert page.evaluate("() => applied") == [["encode_to_cpu"], planned]
    panel.locator("th[data-column='title'] button").click()
    assert panel.locator("th[aria-sort='ascending']").get_attribute("data-column") == "title"
    panel.locator("[data-focus='reset']").click()
    slider = panel.get_by_role("slider")
    slider.focus()
    slider.press("ArrowRight")
    limit = panel.locator("[data-focus='limit']")
    limit.fill("80%")
    limit.press("Tab")
    panel.locator("[data-model='m1'] button").click()
    panel.locator(".headroom-report summary").click()
    panel.locator("header .headroom-primary").click()
    panel.locator("[data-focus='estimate']").click()
    panel.locator(".headroom-estimate").wait_for()
    panel.locator("select").select_option("p2")
    panel.locator("[data-run='p2']").wait_for()
    panel.locator("[data-rescue='p2'] button").click()
    shown.offer(1)
    page.locator(".headroom-close").click()
    shown.posts(7)
    assert shown.posted == [
        ("/headroom/peaks", {}), ("/headroom/reserve", {"mib": 576}),
        ("/headroom/limit", {"limit": "80%"}),
        ("/headroom/offload", {"model": "m1"}), ("/headroom/purge", {}),
        ("/headroom/estimate", {"prompt": {"1": {"class_type": "A", "inputs": {}}}}),
        ("/headroom/rescue", {"prompt_id": "p2"}),
    ]
    assert shown.unreached() == []


def test_keys_stop_once_at_each_heading_and_row_and_at_no_band_of_the_timeline(open_panel):
    shown = drawn(open_panel())
    stops = []
    shown.panel.locator("header .headroom-primary").focus()
    while (seen := shown.page.evaluate(STOP)) != "the page":
        stops.append(seen)
        shown.page.keyboard.press("Tab")
    table = [stop for stop in stops if stop.startswith(("column ", "node "))]
    columns = ["title", "peak", "vram", "ram", "seconds"]
    assert table[:5] == [f"column {key}" for key in columns]
    assert sorted(table[5:]) == [f"node {number}" for number in range(1, 7)]
    assert "in the timeline" not in stops
    assert {"picker", "reset", "reserve", "limit", "offload m1", "rescue p1"} <= set(stops)


def test_after_a_key_on_a_heading_the_next_key_begins_there(open_panel):
    shown = drawn(open_panel())
    size = shown.panel.locator(".headroom-size")
    size.fill("7")
    shown.panel.locator("[data-focus='column seconds']").focus()
    shown.page.keyboard.press("Enter")
    assert shown.panel.locator("th[aria-sort='descending']").get_attribute("data-column") == (
        "seconds")
    assert shown.focused() == "column seconds"
    shown.page.keyboard.press("Tab")
    assert shown.focused() == "node 3"
    shown.page.keyboard.press("Space")
    assert shown.page.evaluate("() => picked") == ["3"]
    assert size.is_visible() and size.input_value() == "7"  # a form that is open stays as it is


def test_another_language_is_shown_at_once_and_older_messages_stay(open_panel):
    shown = drawn(open_panel())
    shown.panel.locator("header .headroom-primary").click()
    shown.panel.locator(".headroom-report").wait_for()
    shown.offer(1)
    shown.speak("zh")
    assert shown.panel.locator("h3").all_inner_texts() == [
        "内存占用", "已加载的模型", "当前工作流", "最近的运行"]
    assert "报告" in shown.panel.locator(".headroom-report").inner_text()
    assert "节点" in shown.panel.locator("th").first.inner_text()
    assert "重新运行" in shown.page.locator(".headroom-toast").inner_text()
    shown.speak("en")
    assert "Loaded models" in shown.panel.inner_text()
    shown.page.evaluate("() => { window.locale = 'zh'; }")  # nobody tells: it notices by itself
    shown.panel.get_by_text("已加载的模型").wait_for()


def test_nodes_that_the_server_left_out_are_counted_under_a_short_table_too(open_panel):
    assert "Nodes that are not listed: 2." in drawn(open_panel()).panel.inner_text()


def test_prompts_of_a_killed_server_can_be_discarded_or_queued_and_refusals_show(open_panel):
    shown = open_panel()
    left = {"prompts": ["a", "b"], "text": "2 prompts had not run.", "said": None, "refused": [
        {"prompt_id": "b", "error": "no such node"}], "queued": ["a"]}
    shown.answers["/headroom/queue"] = left
    box = shown.page.locator(".headroom-left")
    shown.page.evaluate("() => left.setup()")
    box.get_by_role("button", name="Queue them again").click()
    shown.page.wait_for_function("() => told.length === 2")
    assert [told[2] for told in shown.page.evaluate("() => told")] == [
        "1 queued again.", "Prompt b is not queued again: ComfyUI says no such node"]
    shown.answers["/headroom/queue"] = {**left, "prompts": []}
    box.get_by_role("button", name="Discard").click()
    box.wait_for(state="hidden")
    assert [asked for _, asked in shown.posted] == [
        {"action": "queue again"}, {"action": "discard"}]


def test_many_offers_are_one_box_that_counts_scrolls_and_closes(open_panel):
    shown = open_panel()
    for number in range(FAILURES + 5):
        shown.offer(number)
    page = shown.page
    page.set_viewport_size({"width": 900, "height": 700})
    box = page.locator(".headroom-toast")
    assert box.count() == 1
    assert box.locator("header b").inner_text() == f"{FAILURES} prompts can run again"
    assert box.bounding_box()["height"] < 400
    entries = box.locator("[data-offer]")
    assert entries.count() == FAILURES
    assert entries.first.inner_text().startswith(f"Failure {FAILURES + 4}.")  # the newest
    entries.last.get_by_role("button").click()  # is scrolled to
    page.wait_for_function("n => document.querySelectorAll('[data-offer]').length === n",
                           arg=FAILURES - 1)
    assert shown.posted == [("/headroom/rescue", {"prompt_id": "f5"})]
    shown.offer(20)
    assert entries.count() == FAILURES - 1  # a prompt is offered once
    box.get_by_role("button", name="Close").click()
    assert box.is_hidden()
    shown.offer(99)
    assert box.locator("header b").inner_text() == "Out of memory"

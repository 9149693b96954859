"""Sentences in the panel: a stuck prompt, packs, errors, limits, spills, slow nodes."""

import copy
import time

import pytest
from support.canvas_history import FRAME
from support.panel_answers import RUN, RUN_ID, SECOND, SECOND_ID

pytestmark = pytest.mark.browser

LINES = {
    "en": {
        "[data-stuck]": "no progress for 612 s in KSampler #3",
        "[data-foreign=comfyui_sam3]": "1 GiB held by comfyui_sam3 (Sam3): not managed",
        "[data-not-limited]": "dynamic VRAM cannot be limited while it runs",
        "[data-spilled='3']": "spilled 1.2 GiB while Node 3 #3 ran",
        "[data-ram-low]": "Only 120 MiB of 15.6 GiB of RAM were left in this run",
        "[data-ram-held]": "small objects of Python\n210 MiB",
        "[data-advice=error]": "ComfyUI could not read pinned memory.",
        "[data-slower='3']": "Node 3 #3 took 31.0 s, and 10.0 s in an earlier run: "
                      "900 MiB of swap were in use, and 0 MiB in the earlier run",
    },
    "zh": {
        "[data-stuck]": "612", "[data-foreign=comfyui_sam3]": "comfyui_sam3",
        "[data-spilled='3']": "Node 3 #3 运行时溢出了 1.2 GiB",
        "[data-ram-low]": "最少只剩 120 MiB",
        "[data-slower='3']": "交换空间使用了 900 MiB，当时是 0 MiB",
    },
}

# ComfyUI's own colours, and the contrast of each text of the panel with what it stands on.
THEMES = {"dark": ("#353535", "#fff", "#222", "#ddd"),
          "light": ("#ddd", "#222", "#c9c9c9", "#222")}
PAINT = """([menu, text, field, input]) => { const { style } = document.documentElement;
  for (const [name, colour] of [["comfy-menu-bg", menu], ["fg-color", text],
    ["comfy-input-bg", field], ["input-text", input]]) style.setProperty(`--${name}`, colour);
  document.body.style.background = menu; }"""
FAINT = """() => { const page = document.createElement("canvas")
    .getContext("2d", { willReadFrequently: true });
  const rgba = colour => { page.clearRect(0, 0, 1, 1); page.fillStyle = colour;
    page.fillRect(0, 0, 1, 1); return [...page.getImageData(0, 0, 1, 1).data]; };
  const over = ([r, g, b, a], low) => [r, g, b].map((c, i) => (c * a + low[i] * (255 - a)) / 255);
  const under = each => { if (!each) return [255, 255, 255];
    return over(rgba(getComputedStyle(each).backgroundColor), under(each.parentElement)); };
  const light = colour => colour.map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((all, c, i) => all + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (each, ground, paint) => { const base = under(ground);
    const low = paint ? over(rgba(paint), base) : base;
    const ink = each instanceof SVGElement ? "fill" : "color";
    const [x, y] = [light(over(rgba(getComputedStyle(each)[ink]), low)), light(low)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  return [...document.querySelectorAll(".headroom-panel *")]
    .filter(each => !each.disabled && each.checkVisibility()
      && [...each.childNodes].some(child => child.nodeType === 3 && child.data.trim()))
    .map(each => { const band = each.closest(".headroom-band")?.querySelector("rect");
      return [contrast(each, each.closest("svg")?.parentElement ?? each,
                       band && getComputedStyle(band).fill), each]; })
    .filter(([figure]) => figure < 4.5)
    .map(([figure, each]) => `${figure.toFixed(2)} ${each.textContent.slice(0, 40)}`); }"""


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_stands_out_from_what_it_stands_on_in_every_theme(open_panel, theme):
    shown = open_panel()
    shown.panel.locator(".headroom-chart").wait_for()
    shown.page.evaluate(PAINT, THEMES[theme])
    shown.panel.locator("[data-focus=estimate]").click()
    shown.panel.locator(".headroom-estimate b").wait_for()
    for summary in shown.panel.locator("summary").all():
        summary.click()
    for number in range(0, 360, 30):  # bands have the colour of their node's class
        shown.page.evaluate("n => document.querySelectorAll('.headroom-band').forEach("
                            "each => each.style.setProperty('--hue', n))", number)
        assert shown.page.evaluate(FAINT) == [], number


@pytest.mark.parametrize("locale", LINES)
def test_every_line_is_shown_in_the_users_language(open_panel, locale):
    shown = open_panel(locale=locale)
    shown.panel.locator(".headroom-chart").wait_for()
    for summary in shown.panel.locator("summary").all():
        summary.click()
    for place, text in LINES[locale].items():
        assert text in "".join(shown.panel.locator(place).all_inner_texts()), place
    assert shown.panel.locator("[data-focus=limit]").input_value() == "3 GiB"
    above = shown.panel.locator("[data-part=aboveLimit]")
    assert above.get_attribute("data-mib") == "1024"
    assert shown.problems == []


def test_the_field_for_the_limit_is_in_the_colours_of_the_panels_other_fields(open_panel):
    shown = open_panel()
    look = "each => ['backgroundColor', 'borderColor', 'color'].map(k => getComputedStyle(each)[k])"
    field, other = (shown.panel.locator(place) for place in ("[data-focus=limit]", "select"))
    field.wait_for()
    assert field.evaluate(look) == other.first.evaluate(look)


RUNNING_ID = "p0"


def test_while_a_prompt_runs_the_list_of_runs_stays_open_for_a_choice(open_panel):
    shown = open_panel()
    running = {**copy.deepcopy(RUN), "prompt_id": RUNNING_ID, "status": "running", "failure": None}
    shown.answers[f"/headroom/runs/{RUNNING_ID}"] = running
    shown.answers["/headroom/runs"] = {"runs": [running, RUN]}
    shown.answers["/headroom/memory"] = {**shown.answers["/headroom/memory"], "busy": True}
    time_of_run = shown.panel.locator("[data-figure=seconds] b")
    picker = shown.panel.locator("select")
    assert picker.evaluate("s => [s.isConnected, s.selectedOptions.length]") == [True, 1]
    shown.panel.locator(f"[data-run='{RUNNING_ID}']").wait_for()
    opened = picker.element_handle()
    for seconds in (21.0, 32.0):
        running["seconds"] = seconds
        running["samples"]["seconds"].append(seconds)
        time_of_run.get_by_text(f"{seconds:.0f} s").wait_for()
    assert opened.evaluate("s => s.isConnected")
    assert " · running" in picker.locator("option").first.inner_text()
    picker.select_option(RUN_ID)
    shown.panel.locator(f"[data-run='{RUN_ID}']").wait_for()


def test_a_list_that_is_read_stays_open_when_its_figures_change(open_panel):
    shown = open_panel()
    held = {**RUN["ram_held"], "python_heap_mib": 210.0}
    shown.answers["/headroom/memory"] = {**shown.answers["/headroom/memory"], "ram_held": held}
    details = shown.panel.locator("section:first-of-type [data-ram-held]").first
    details.locator("summary").click()
    details.get_by_text("210 MiB").wait_for()
    held["python_heap_mib"] = 333.0
    details.get_by_text("333 MiB").wait_for()
    assert details.get_by_text("333 MiB").is_visible()
    assert shown.focused() == "Who holds the RAM of this server"


def test_of_two_runs_chosen_one_after_the_other_the_last_is_shown_whatever_answer_comes_last(
    open_panel
):
    shown = open_panel()
    picker, held = shown.panel.locator("select"), []
    shown.panel.locator(f"[data-run='{RUN_ID}']").wait_for()
    shown.page.route(f"**/headroom/runs/{SECOND_ID}", lambda route: held.append(route))
    picker.select_option(SECOND_ID)
    with shown.page.expect_response(f"**/headroom/runs/{RUN_ID}"):
        picker.select_option(RUN_ID)
    asked = []
    shown.page.on("request", lambda request: asked.append(request.url))
    with shown.page.expect_response(f"**/headroom/runs/{SECOND_ID}"):
        held[0].fulfill(json=SECOND)
    shown.page.evaluate(FRAME)
    assert not any(url.endswith(f"/{SECOND_ID}/advice") for url in asked)
    assert picker.input_value() == RUN_ID


def test_a_run_that_begins_and_ends_while_the_panel_asks_for_the_runs_is_shown(open_panel):
    shown, held = open_panel(), []
    shown.panel.locator(f"[data-run='{RUN_ID}']").wait_for()
    shown.page.route("**/headroom/runs?*", lambda route: held.append(route))
    with shown.page.expect_request("**/headroom/runs?*"):
        shown.page.evaluate("() => { panel.refresh(); }")
    quick = {**RUN, "prompt_id": "quick", "status": "success", "failure": None}
    shown.page.evaluate("() => { panel.refresh(); panel.refresh(); }")  # it begins, it ends
    shown.page.unroute("**/headroom/runs?*")
    shown.answers.update({"/headroom/runs": {"runs": [quick, RUN]}, "/headroom/runs/quick": quick,
                          "/headroom/runs/quick/advice": []})
    held[0].fulfill(json={"runs": [RUN, SECOND]})
    shown.panel.locator("[data-run=quick][data-status=success]").wait_for()


def test_a_server_without_the_panels_routes_is_not_said_to_have_forgotten_a_run(open_panel):
    shown = open_panel()
    shown.page.route("**/headroom/memory",
                     lambda route: route.fulfill(status=404, body="404: Not Found"))
    trouble = shown.panel.get_by_text("The server does not answer: /headroom/memory: 404")
    trouble.wait_for()
    shown.page.unroute("**/headroom/memory")
    trouble.wait_for(state="detached")
    shown.problems.clear()  # the browser's own lines about the status


def test_a_run_of_another_day_says_the_day(open_panel):
    shown = open_panel()
    day = time.strftime("%Y-%m-%d", time.localtime(RUN["started_at"]))
    assert day in shown.panel.locator("option").first.inner_text()


def test_lines_below_the_memory_keep_apart(open_panel):
    shown = open_panel(width=232)
    lines = [shown.panel.locator(place).first for place in (
        ".headroom-held", "label:has([data-focus=limit])", "[data-ram-held]")]
    lines[1].wait_for()
    boxes = [line.bounding_box() for line in lines]
    gaps = [below["y"] - above["y"] - above["height"]
            for above, below in zip(boxes, boxes[1:], strict=False)]
    assert min(gaps) >= 4, gaps


def test_who_holds_the_ram_stands_within_the_panel_beside_its_figure_however_long_its_name_is(
    open_panel
):
    shown = open_panel(width=270)
    held = {**RUN["ram_held"], "cached": [{"node_id": "17", "class_type": "A" * 60, "mib": 8.8}]}
    shown.answers["/headroom/memory"] = {**shown.answers["/headroom/memory"], "ram_held": held}
    details = shown.panel.locator("section:first-of-type [data-ram-held]").first
    details.locator("summary").click()
    line = details.locator(".headroom-line", has_text="8.8 MiB")
    line.wait_for()
    whole, name, figure = (each.bounding_box() for each in (line, *line.locator("> *").all()))
    assert name["x"] + name["width"] <= figure["x"]
    assert figure["x"] + figure["width"] == pytest.approx(whole["x"] + whole["width"], abs=1)


def test_trouble_is_not_in_the_colour_of_what_the_memory_nodes_did(open_panel):
    shown = open_panel()
    edge = "each => getComputedStyle(each).borderLeftColor"
    done = shown.panel.locator(".headroom-action").first.evaluate(edge)
    for trouble in ("[data-slower]", "[data-spilled]", ".headroom-oom.headroom-recovered"):
        assert shown.panel.locator(trouble).first.evaluate(edge) != done, trouble


def test_an_offer_leaves_the_frontends_own_error_and_the_canvass_buttons_free(open_panel):
    shown = open_panel()
    shown.page.set_viewport_size({"width": 900, "height": 700})
    shown.page.evaluate("""() => document.body.insertAdjacentHTML("beforeend",
      `<div><div data-testid="error-overlay" style="position: fixed; top: 88px; right: 8px;
        width: 480px; height: 142px"></div></div>`)""")  # as large as it is in 1.58.1
    shown.offer(1)
    offer = shown.page.locator("[role=alert]:visible").bounding_box()
    assert offer["y"] >= 88 + 142 and offer["y"] + offer["height"] <= 700 - 60
    shown.page.evaluate("""() => { document.querySelector("[data-testid]").remove();
      document.body.insertAdjacentHTML("beforeend",
        `<div><div aria-labelledby="global-execution-error"></div></div>`); }""")  # 1.32.9's dialog
    offer = shown.page.locator("[role=alert]:visible").bounding_box()
    assert offer["x"] + offer["width"] <= 450 and offer["y"] + offer["height"] <= 280
    left = shown.page.evaluate("""() => { const box = document.createElement("div");
      box.className = "headroom-toast headroom-left"; document.body.append(box);
      return innerHeight - box.getBoundingClientRect().bottom; }""")
    assert left >= 60

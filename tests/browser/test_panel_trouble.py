"""The panel when something goes wrong: on the server, on the way, or in the page itself."""

import pytest
from support.prompts import picture, sampling

pytestmark = [pytest.mark.host, pytest.mark.browser]


@pytest.fixture
def gpu(sim):
    return sim(4096)


def answer_once(comfy, path, **answer):
    """Let the next question for `path` have this answer instead of the server's."""
    comfy.page.route(path, lambda route: route.fulfill(**answer), times=1)


def test_before_the_first_run_the_panel_shows_the_memory_and_its_button_can_be_pressed(
    gpu, open_page
):
    comfy = open_page(gpu)
    comfy.page.route("**/headroom/runs?*", lambda route: route.fulfill(json={"runs": []}))
    panel = comfy.open_panel()
    panel.get_by_text("No run yet").wait_for()
    assert panel.locator(".headroom-error").inner_text() == ""
    assert panel.get_by_role("button", name="Purge VRAM").is_enabled()


def test_after_an_answer_that_cannot_be_drawn_the_panel_goes_on(gpu, open_page):
    comfy = open_page(gpu).load_prompt(picture(seed=60))
    comfy.set("Headroom.Panel.RefreshSeconds", 0.5)
    panel = comfy.open_panel()
    answer_once(comfy, "**/headroom/memory", json={"busy": False, "devices": None})
    comfy.until(lambda: comfy.problems)
    comfy.asked.clear()
    comfy.until(lambda: len(comfy.asked) > 2)
    gpu.set_other_process(700)
    part = panel.locator("[data-part='otherProcesses']").first
    comfy.until(lambda: float(part.get_attribute("data-mib")) >= 700)
    comfy.problems.clear()


def test_a_chosen_run_that_is_no_longer_kept_is_said_and_the_shown_one_stays_chosen(gpu, open_page):
    comfy = open_page(gpu).load_prompt(picture(seed=61))
    panel = comfy.open_panel()
    first = comfy.run()["prompt_id"]
    comfy.load_prompt(picture(seed=62))
    second = comfy.run()["prompt_id"]
    panel.locator(f"[data-run='{second}']").wait_for()
    answer_once(comfy, f"**/headroom/runs/{first}", status=404, json={"error": "No record."})
    panel.locator("select").select_option(first)
    comfy.told("no longer kept")
    assert panel.locator("select").input_value() == second
    assert panel.locator("[data-run]").get_attribute("data-run") == second
    panel.locator("select").select_option(first)  # it was there all the time
    panel.locator(f"[data-run='{first}']").wait_for()
    panel.locator("select").select_option(second)  # the newest: what comes next is shown again
    panel.locator(f"[data-run='{second}']").wait_for()
    comfy.problems.clear()


def test_while_the_server_is_down_buttons_are_off_and_say_why_and_come_back_with_it(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=63))
    comfy.run()
    comfy.set("Headroom.Panel.RefreshSeconds", 0.5)
    panel = comfy.open_panel()
    buttons = panel.locator(".headroom-primary, [data-model] button")
    comfy.until(lambda: buttons.count() > 1 and buttons.first.is_enabled())
    comfy.page.route("**/headroom/**", lambda route: route.abort())
    panel.get_by_text("The server does not answer").wait_for()
    for index in range(buttons.count()):
        assert buttons.nth(index).is_disabled()
        assert "The server does not answer" in buttons.nth(index).get_attribute("title")
    comfy.page.unroute("**/headroom/**")
    comfy.until(lambda: buttons.first.is_enabled())
    assert panel.get_by_text("The server does not answer").count() == 0
    comfy.problems.clear()


def test_a_node_that_is_gone_is_said_to_be_on_another_canvas_or_deleted(gpu, open_page):
    comfy = open_page(gpu).load_prompt(picture(seed=66))
    panel = comfy.open_panel()
    comfy.run()
    comfy.page.evaluate("() => app.graph.remove(app.graph.getNodeById(2))")
    panel.locator("tr[data-node='2'] button").click()
    comfy.told("#2 is not on this canvas, or was deleted")


def test_buttons_have_names_and_the_loaded_models_are_a_list(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=74))
    panel = comfy.open_panel()
    comfy.run()
    models = comfy.get("/headroom/memory")["models"]
    comfy.until(lambda: panel.get_by_role("listitem").count() >= len(models))
    for model in models:
        named = panel.get_by_role("button", name=f"Offload {model['file'] or model['class']}")
        assert named.count() >= 1
    assert panel.get_by_role("button", name="Find KSampler on the canvas").count() >= 1


def test_an_out_of_memory_error_is_told_at_once_and_marked_where_it_happened(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=46))
    comfy.run()
    comfy.load_prompt(sampling(seed=47, guarded=True))
    panel = comfy.open_panel()
    events = comfy.listen("headroom.oom", "execution_success")
    gpu.arm_fault(at=200, times=1)
    run = comfy.run()
    comfy.until(lambda: "execution_success" in events())
    assert events().index("headroom.oom") < events().index("execution_success")
    comfy.told("Recovered from out of memory")
    told = comfy.page.evaluate("() => told.filter(text => /out of memory/i.test(text))")
    assert "Out of memory, trying again" in told[0] and "Recovered" in told[-1]
    mark = panel.locator(".headroom-mark-oom line").first
    at = float(mark.get_attribute("x1"))
    band = panel.locator(f".headroom-band[data-node='{run['oom'][0]['node_id']}'] rect")
    start, width = (float(band.get_attribute(name)) for name in ("x", "width"))
    assert start <= at < start + width
    begun, ended = next(each["spans"] for each in run["nodes"]
                        if each["node_id"] == run["oom"][0]["node_id"])[0]
    share = (run["oom"][0]["at_seconds"] - begun) / (ended - begun)
    assert (at - start) / width == pytest.approx(share, abs=0.05)


CLIPPED = """panel => { const right = panel.getBoundingClientRect().right;
  return [...panel.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > right + 1
    || (e.children.length === 0 && e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1
        && getComputedStyle(e).overflowX !== "visible")).map(e => e.outerHTML.slice(0, 90)); }"""


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_at_the_least_width_of_a_sidebar_nothing_is_clipped(gpu, open_page, locale):
    comfy = open_page(gpu, locale=locale).load_prompt(sampling(seed=70 + len(locale)))
    panel = comfy.open_panel()
    comfy.run()
    panel.evaluate("panel => { panel.style.width = '167px'; }")
    comfy.until(lambda: panel.evaluate(CLIPPED) == [])

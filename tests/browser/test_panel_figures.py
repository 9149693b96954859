"""Figures in the panel: devices, peaks marked "at least", highest peaks, the live reserve."""


import pytest
from support.browser import shown_mib
from support.prompts import picture, sampling

pytestmark = [pytest.mark.host, pytest.mark.browser]


@pytest.fixture
def gpu(sim):
    return sim(4096)


def change_answers(comfy, pattern, change):
    """Let the page see the server's own answers with `change(json)` made to them."""

    def answer(route):
        body = route.fetch().json()
        change(body)
        route.fulfill(json=body)

    comfy.page.route(pattern, answer)


def test_peaks_are_held_until_they_are_reset(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=350))
    comfy.set("Headroom.Panel.RefreshSeconds", 0.5)
    run = comfy.run()
    comfy.page.request.post(f"{gpu.url}/headroom/purge", data="{}")
    panel = comfy.open_panel()
    held = panel.locator(f"[data-device='{run['device']}'] [data-peak]")
    assert float(held.get_attribute("data-peak")) >= run["peak_vram_mib"]
    panel.get_by_role("button", name="Reset").click()
    comfy.until(lambda: float(held.get_attribute("data-peak")) < run["peak_vram_mib"])
    used = comfy.get("/headroom/memory")["devices"][0]["used_mib"]
    assert float(held.get_attribute("data-peak")) == pytest.approx(used)


def test_the_reserve_is_hidden_where_the_host_has_no_public_way(gpu, open_page):
    comfy = open_page(gpu)
    panel = comfy.open_panel()
    if comfy.get("/headroom/memory")["reserve_mib"] is not None:
        pytest.skip("this ComfyUI has a live reserve")
    assert panel.get_by_role("slider").count() == 0


def test_every_device_has_its_figures_and_an_inexact_peak_is_marked_at_least(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=310))

    def two_devices(run):
        if "devices" not in run:
            return
        for part in (run, *run["nodes"]):
            main, other = part["devices"][0], {**part["devices"][0], "device": "cuda:9"}
            if main["peak_vram_mib"] is not None:
                main["peak_vram_at_most_mib"] = None
                other.update(peak_vram_mib=77.0, peak_vram_at_most_mib=77.0)
                part["peak_vram_at_most_mib"] = None
            part["devices"] = [main, other]

    change_answers(comfy, "**/headroom/runs/*", two_devices)
    panel = comfy.open_panel()
    run = comfy.run()
    main = panel.locator("[data-figure='vram']")
    assert main.locator("b").inner_text() == f"≥ {shown_mib(run['peak_vram_mib'])}"
    assert run["device"] in main.inner_text()
    other = panel.locator("[data-figure='vram cuda:9']")
    assert other.locator("b").inner_text() == "77 MiB"
    assert "cuda:9 77M" in panel.locator("td.headroom-peak").first.inner_text()


def test_a_run_says_which_gpu_would_have_been_enough_and_that_this_was_measured(gpu, open_page):
    comfy = open_page(gpu).load_prompt(sampling(seed=320))
    panel = comfy.open_panel()
    run = comfy.run()
    fits = comfy.get(f"/headroom/runs/{run['prompt_id']}")["fits"]
    said = panel.locator("[data-fits]").inner_text()
    assert shown_mib(fits["smallest_mib"][1]) in said
    assert f"a card of {fits['cards_gib'][0]} GiB is enough" in said
    assert "Measured in this run" in said


def test_reports_are_told_in_the_users_language(gpu, open_page):
    comfy = open_page(gpu, locale="zh").load_prompt(picture(seed=340))
    panel = comfy.open_panel()
    comfy.run()
    assert "显存" in panel.locator(".headroom-action").first.inner_text()
    assert "freed" not in panel.locator(".headroom-action").first.inner_text()
    comfy.until(lambda: panel.locator(".headroom-primary").is_enabled())
    panel.locator(".headroom-primary").click()
    comfy.told("释放了")
    panel.locator(".headroom-report summary").click()
    report = panel.locator(".headroom-report pre").inner_text()
    assert "驱动空闲" in report and "分配器缓存" in report and "garbage" not in report

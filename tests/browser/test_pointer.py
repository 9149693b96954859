"""A pointer moves over everything that the panel draws, and keys reach all that can be pressed."""

import pytest

pytestmark = pytest.mark.browser

LOCALES = pytest.mark.parametrize("locale", ["en", "zh"])


@LOCALES
def test_a_pointer_over_everything_that_the_panel_draws_causes_no_error(open_panel, locale):
    shown = open_panel(locale=locale)
    chart = shown.panel.locator(".headroom-chart")
    chart.wait_for()
    for summary in shown.panel.locator("summary").all():
        summary.click()
    shown.move_over(".headroom-panel")
    assert not {kind for kind in shown.unreached() if kind.startswith("pointer")}


def test_the_line_below_the_timeline_says_what_is_under_the_pointer(open_panel):
    shown = open_panel()
    chart = shown.panel.locator(".headroom-chart")
    chart.wait_for()
    box = chart.bounding_box()
    readout = shown.panel.locator(".headroom-readout")
    shown.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 30)
    assert readout.inner_text() == "2.5 s · VRAM 250 MiB · RAM 12 MiB · Node 2"
    shown.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 30)
    assert readout.inner_text() == "6.0 s · VRAM – · RAM 20 MiB · Node 3"
    shown.page.mouse.move(box["x"] + 30, box["y"] + box["height"] + 300)
    assert readout.inner_text().strip() == ""

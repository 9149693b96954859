"""One Chromium for all browser tests, and a page for each that must end without problems.

No longer than this package: Playwright runs an event loop in this thread for as long as it is open,
and a test of another folder that starts one of its own would fail.
"""

from __future__ import annotations

import os

import pytest

# HEADROOM_NODES2=1 draws every canvas with Nodes 2.0 where a test does not choose for itself.
NODES2 = os.environ.get("HEADROOM_NODES2") == "1"


@pytest.fixture(scope="package")
def chromium():
    """A running Chromium for this package, or a skip that says what is missing."""
    from support import browser

    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright for Python")
    executable = browser.find_chromium()
    if executable is None:
        pytest.skip("needs Chromium: `apt-get install chromium`, or any Chrome on the PATH")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=list(browser.FLAGS),
                                             timeout=browser.PATIENCE_MS)
        yield running
        running.close()


@pytest.fixture(scope="package")
def window(chromium):
    """One window for all: its tests share the cache of the frontend's files, no more."""
    from support.browser import HEIGHT, PATIENCE_MS, WIDTH

    context = chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    context.set_default_timeout(PATIENCE_MS)
    return context


@pytest.fixture(scope="module")
def tabs():
    """Pages that a test of this module has left, which the next one may take over."""
    left = []
    yield left
    for former in left:
        former.page.close()


@pytest.fixture
def open_page(request, window, tabs):
    """A factory of pages; the test fails when our files caused an error or were not found.

    A test takes over the page of the test before, made as new, unless that one failed. Another
    language or server is loaded, which takes 5 s of CPU time: tests in one language come together.
    """
    from support.browser import ComfyPage
    from support.page_scripts import KEEP_MESSAGES

    pages: list[ComfyPage] = []
    failures = request.session.testsfailed

    def open_one(server, **options) -> ComfyPage:
        if tabs:
            former = tabs.pop()
            page = ComfyPage(former.page, server.url, former.shows)
        else:
            page = ComfyPage(window.new_page(), server.url)
            page.page.add_init_script(KEEP_MESSAGES)
        pages.append(page)
        return page.open(**{"nodes2": NODES2, **options})

    yield open_one
    failed = request.session.testsfailed > failures
    for page in pages:
        page.leave(keep=not (failed or page.problems))
    tabs += pages
    assert [problem for page in pages for problem in page.problems] == []


@pytest.fixture
def open_panel(window):
    """A factory of pages with the panel alone, without a server; any error of a page fails."""
    from support.panel_answers import answers
    from support.panel_page import PanelPage

    pages: list[PanelPage] = []

    def open_one(**options) -> PanelPage:
        pages.append(PanelPage(window.new_page(), answers()))
        return pages[-1].open(**options)

    yield open_one
    for page in pages:
        page.page.close()
    assert [problem for page in pages for problem in page.problems] == []

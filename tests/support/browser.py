"""A real Chromium with a real ComfyUI page in it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from .canvas_history import FRAME
from .page_scripts import AS_NEW, CHANGE, GONE, MESSAGE, NO_MESSAGES, READY, SETTLED

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    # Each new window would load two pages of 400 modules for suggestions below its address bar.
    "--disable-features=" + ",".join((
        "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "Translate",
        "MediaRouter", "OptimizationHints", "HttpsUpgrades")),
)
NAMES = ("chromium", "chromium-browser", "google-chrome")
OURS = re.compile(r"/extensions/headroom/|/headroom/|\bheadroom\.(js|css)", re.IGNORECASE)
# In older frontends, and in newer ones.
TAB_BUTTON = ".headroom-tab-button, [data-testid='headroom-tab-button']"
WIDTH, HEIGHT = 1500, 1000
CANVAS = pytest.mark.parametrize("nodes2", [False, True], ids=["classic", "nodes2"])
PATIENCE_MS = 120_000  # a machine with too few cores needs a while to load the page


def find_chromium() -> str | None:
    """The path of a Chromium on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class ComfyPage:
    """A page of the server at `url`; `problems` collects what went wrong in our own files.

    `shows` is what the tab has loaded already: the address and the language.
    """

    def __init__(self, page: Any, url: str, shows: tuple[str, str] | None = None) -> None:
        self.page = page
        self.url = url
        self.shows = shows
        self.problems: list[str] = []
        self.asked: list[str] = []
        self.waiting: set[Any] = set()  # requests to our routes without an answer yet
        self._before: dict[str, Any] = {}  # what settings that the test changed were
        self._listeners: dict[str, Callable[[Any], None]] = {
            "console": self._on_console,
            "pageerror": lambda error: self._note(f"{error} {getattr(error, 'stack', '')}"),
            "request": self._on_request, "response": self._on_response,
            "requestfinished": self._on_end, "requestfailed": self._on_end,
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)

    def leave(self, *, keep: bool) -> None:
        """Release the tab with its earlier settings; with `keep`, it goes on showing this page."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self.page.unroute_all(behavior="ignoreErrors")  # of a request that is being answered
        self.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        if keep and self.shows:
            for name, value in dict(self._before).items():
                self.set(name, value)
        else:
            self._store(self._before)
            self.shows = None
            self.page.goto("about:blank")

    def _store(self, settings: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json"}
        self.page.request.post(f"{self.url}/settings", data=json.dumps(settings), headers=headers)

    def _note(self, text: str) -> None:
        if OURS.search(text):
            self.problems.append(text)

    def _on_console(self, message: Any) -> None:
        place = message.location.get("url", "")
        if message.type == "error":
            self._note(f"{message.text} ({place})")

    def _on_request(self, request: Any) -> None:
        if re.search(r"/headroom/(memory|runs|purge|offload)", request.url):
            self.asked.append(request.url)
            self.waiting.add(request)

    def _on_end(self, request: Any) -> None:
        self.waiting.discard(request)

    def _on_response(self, response: Any) -> None:
        refused = "/headroom/purge" in response.url or "/headroom/offload" in response.url
        if response.status >= 400 and not refused:
            self._note(f"{response.status} {response.url}")

    # -- opening ------------------------------------------------------------------------------

    def open(
        self, *, nodes2: bool = False, light: bool = False, locale: str = "en", **settings: Any
    ) -> ComfyPage:
        """Open the page with these settings, and wait until the canvas is there.

        Loading takes 2 to 5 s of CPU time: a tab that shows this page is made as new instead,
        unless a setting is named, which may count from the next load only.
        """
        named = {name.replace("__", "."): value for name, value in settings.items()}
        look = {"Comfy.VueNodes.Enabled": nodes2,
                "Comfy.ColorPalette": "light" if light else "dark"}
        self._store({"Comfy.TutorialCompleted": True, "Comfy.UseNewMenu": "Top",
                     "Comfy.Locale": locale, **look, **named})
        if self.shows == (self.url, locale) and not named:
            for name, value in look.items():
                self.set(name, value)
            self._before.clear()
            self.page.keyboard.press("Escape")
            self.page.evaluate(AS_NEW)
            self.page.wait_for_function(GONE)
            self.settled()
            self.until(self.is_quiet)  # the panel of the test before asked until it was closed
            self.asked.clear()
            self.page.evaluate("() => { told.length = 0; }")
            return self
        self._before = dict.fromkeys(named)  # null is a setting's default
        self.shows = None if named else (self.url, locale)
        self.page.goto(f"{self.url}/system_stats")
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); "
                           "localStorage.setItem('vueNodesBannerDismissed', 'true'); }")
        self.page.goto(self.url)
        return self.ready()

    def ready(self) -> ComfyPage:
        self.page.wait_for_function(READY, timeout=120_000)
        self.page.wait_for_function("() => app.graph._nodes.length > 0", timeout=60_000)
        return self.settled()

    def reload(self) -> ComfyPage:
        self.page.reload()
        return self.ready()

    def set(self, name: str, value: Any) -> None:
        """Change one of the frontend's settings, as its dialog does, until the test ends."""
        before = self.page.evaluate(CHANGE, [name, value])
        self._before.setdefault(name, before)

    def load_prompt(self, prompt: dict[str, Any]) -> ComfyPage:
        """Put an API-format prompt on the canvas."""
        self.page.evaluate("p => app.loadApiJson(p, 'test.json')", prompt)
        return self.loaded(len(prompt))

    def load_workflow(self, workflow: dict[str, Any], count: int) -> ComfyPage:
        """Put a UI-format workflow with `count` nodes on the canvas."""
        self.page.evaluate("w => app.loadGraphData(w)", workflow)
        return self.loaded(count)

    def loaded(self, count: int) -> ComfyPage:
        self.page.wait_for_function("n => app.graph._nodes.length === n", arg=count)
        return self.settled()

    def settled(self) -> ComfyPage:
        """Wait until the fonts are there, and what is on the canvas keeps its place and size."""
        self.page.evaluate(SETTLED)
        return self

    # -- running ------------------------------------------------------------------------------

    def queue(self) -> None:
        self.page.evaluate("() => app.queuePrompt(0, 1)")

    def run(self, timeout: float = 240.0) -> dict[str, Any]:
        """Queue what is on the canvas and give its finished record; an open panel shows it."""
        known = {run["prompt_id"] for run in self.get("/headroom/runs")["runs"]}
        self.queue()
        run = self.until(lambda: self._finished(known), timeout)
        if self.page.locator(".headroom-panel").is_visible():
            self.page.locator(
                f"[data-run='{run['prompt_id']}'][data-status='{run['status']}']"
            ).wait_for()
        return run

    def _finished(self, known: set[str]) -> dict[str, Any] | None:
        runs = self.get("/headroom/runs?limit=1")["runs"]
        if not runs or runs[0]["prompt_id"] in known or runs[0]["status"] == "running":
            return None
        return dict(self.get(f"/headroom/runs/{runs[0]['prompt_id']}"))

    def get(self, path: str) -> Any:
        return self.page.request.get(self.url + path).json()

    def until(self, check: Callable[[], Any], timeout: float = 60.0) -> Any:
        """The first true answer of `check`; TimeoutError with the last answer when none comes."""
        answer = None
        for _ in range(int(timeout * 5)):
            answer = check()
            if answer:
                return answer
            self.page.wait_for_timeout(200)
        raise TimeoutError(f"Not so after {timeout:g} s; the last answer was {answer!r}.")

    def is_quiet(self) -> bool:
        """No request of ours is open, and no answer makes the page send another."""
        quiet = not self.waiting
        self.page.evaluate(FRAME)
        return quiet and not self.waiting

    # -- looking ------------------------------------------------------------------------------

    def badges(self) -> dict[str, list[str]]:
        """The texts of each node's badges, by node id, as the classic canvas draws them."""
        return dict(self.page.evaluate(
            "() => Object.fromEntries(app.graph._nodes.map(n => [n.id, n.badges"
            ".map(b => (typeof b === 'function' ? b() : b).text).filter(Boolean)]))"
        ))

    def listen(self, *events: str) -> Callable[[], list[str]]:
        """Return a function that lists the names of the server's events so far, in order."""
        self.page.evaluate("names => { window.came = []; for (const name of names)"
                           " app.api.addEventListener(name, () => came.push(name)); }", events)
        return lambda: list(self.page.evaluate("() => came"))

    def open_panel(self) -> Any:
        """Open our tab by its button, unless it is open, and give the panel."""
        panel = self.page.locator(".headroom-panel")
        if not panel.is_visible():
            self.page.locator(TAB_BUTTON).click()
        panel.locator("[data-device]").first.wait_for(timeout=60_000)
        return panel

    def close_panel(self) -> None:
        self.page.locator(TAB_BUTTON).click()
        self.page.locator(".headroom-panel").wait_for(state="detached")

    def forget_messages(self) -> None:
        """Take all messages away, so that `told` finds none from before."""
        self.page.evaluate(f"() => {NO_MESSAGES}")
        self.page.wait_for_function("kind => !document.querySelector(kind)", arg=MESSAGE)
        self.page.evaluate("() => { told.length = 0; }")

    def told(self, text: str) -> str:
        """The newest message with this text since the page was loaded, also one that is gone."""
        kept = "text => told.findLast(message => message.includes(text))"
        return str(self.page.wait_for_function(kept, arg=text).json_value())

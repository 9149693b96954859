"""The panel in a real Chromium without a ComfyUI: files from `js/`, answers from the test.

Every listener that our files put on an element is counted, so that a test can say which of them
no pointer and no key has reached.
"""

from __future__ import annotations

import json
import mimetypes
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

JS = Path(__file__).resolve().parents[2] / "js"
CHINESE = (JS.parent / "locales" / "zh" / "main.json").read_text("utf-8")
ADDRESS = "http://headroom.test"
WIDTH, HEIGHT = 900, 4000  # so high that nothing has to be scrolled to be under the pointer
PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/js/headroom.css">
<body style="margin: 0; background: #222; color: #ddd">
<main id="panel" style="width: WIDTHpx"></main>
<script>
  window.told = []; window.picked = []; window.applied = []; window.saved = [];
  window.locale = "LOCALE";
  window.listeners = [];
  const own = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (type, listener, ...more) {
    if (!(this instanceof Element)) return own.call(this, type, listener, ...more);
    const known = { on: `${this.localName}.${this.classList[0] ?? ""}`, type, calls: 0 };
    window.listeners.push(known);
    return own.call(this, type, function (...given) {
      known.calls += 1;
      return listener.apply(this, given); }, ...more); };
</script>
<script type="module">
  import { createHttp } from "/js/lib/http.js";
  import { createLeftQueue } from "/js/lib/left_queue.js";
  import { createPanel } from "/js/lib/panel.js";
  import { createRescue } from "/js/lib/rescue.js";
  import { speakers } from "/js/lib/say.js";
  const http = createHttp((path, options) => fetch(path, options));
  const speakerOf = speakers({ zh: CHINESE });
  const words = () => speakerOf(window.locale);
  const notify = (...message) => told.push(message);
  window.rescue = createRescue({ http, words, notify });
  window.left = createLeftQueue({ http, words, notify });
  window.panel = createPanel({
    http, words, notify, interval: () => 0.2,
    pickNode: (node) => picked.push(node.node_id),
    prompt: async () => ({ 1: { class_type: "A", inputs: {} } }),
    purge: () => http.purge(),
    apply: (advice) => applied.push(advice.map((item) => item.id)),
    rescue: rescue.ask,
    save: (report) => saved.push(report),
  });
  rescue.setup();
  panel.mount(document.getElementById("panel"));
</script>"""
UNREACHED = """() => { const kinds = new Map();
  for (const { on, type, calls } of listeners)
    kinds.set(`${type} on ${on}`, (kinds.get(`${type} on ${on}`) ?? 0) + calls);
  return [...kinds].filter(([, calls]) => !calls).map(([kind]) => kind); }"""
PLACES = """root => [...document.querySelectorAll(`${root}, ${root} *`)]
  .map(element => element.getBoundingClientRect())
  .filter(box => box.width && box.height)
  .map(box => [box.left + box.width / 2, box.top + box.height / 2])"""


class PanelPage:
    """A page with nothing but our panel; `answers` is what the server says to each path."""

    def __init__(self, page: Any, answers: dict[str, Any]) -> None:
        self.page = page
        self.answers = answers
        self.problems: list[str] = []
        self.posted: list[tuple[str, Any]] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"{error} {error.stack}"))
        page.route(f"{ADDRESS}/**", self._answer)

    def open(self, *, locale: str = "en", width: int = 420) -> PanelPage:
        page = PAGE.replace("CHINESE", CHINESE)
        self._html = page.replace("LOCALE", locale).replace("WIDTH", str(width))
        self.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        self.page.goto(f"{ADDRESS}/")
        self.panel.locator("[data-device]").first.wait_for()
        return self

    @property
    def panel(self) -> Any:
        return self.page.locator(".headroom-panel")

    def offer(self, number: int) -> None:
        """Let the server report a prompt that ran out of memory and can run again."""
        event = {"prompt_id": f"f{number}", "rescued_as": None, "rescued_from": None,
                 "failure": {"can_rescue": True, "text": f"Failure {number}.", "said": None}}
        self.page.evaluate("event => rescue.onEvent({ detail: event })", event)

    def speak(self, locale: str) -> None:
        """Choose another language, as a user does in the settings of the page."""
        self.page.evaluate("locale => { window.locale = locale; panel.draw(); rescue.draw(); }",
                           locale)

    def posts(self, count: int) -> None:
        """Wait until the page has asked the server for so many changes."""
        for _ in range(600):
            if len(self.posted) >= count:
                return
            self.page.wait_for_timeout(50)
        raise TimeoutError(f"not {count} changes, only {self.posted}")

    def focused(self) -> str:
        """What has the focus, by its name for keys; "" for nothing of ours."""
        return str(self.page.evaluate("() => document.activeElement.dataset.focus ?? ''"))

    def move_over(self, root: str) -> None:
        """Move the pointer to the middle of everything that is drawn in `root`."""
        for x, y in self.page.evaluate(PLACES, root):
            self.page.mouse.move(x, y)

    def unreached(self) -> list[str]:
        """The kinds of listeners that nothing has called."""
        return list(self.page.evaluate(UNREACHED))

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _answer(self, route: Any) -> None:
        path = urlsplit(route.request.url).path
        if path == "/":
            route.fulfill(body=self._html, content_type="text/html")
        elif path.startswith("/js/"):
            file = JS / path.removeprefix("/js/")
            kind = mimetypes.guess_type(file.name)[0]
            route.fulfill(body=file.read_bytes(), content_type=kind)
        elif path == "/favicon.ico":
            route.fulfill(status=204)
        else:
            if route.request.method == "POST":
                self.posted.append((path, json.loads(route.request.post_data or "{}")))
            route.fulfill(json=self.answers[path])

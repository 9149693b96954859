"""The search for nodes on a canvas, of older frontends and newer ones."""

from __future__ import annotations

import re
from typing import Any

SEARCH_BOX = re.compile("^(Search Nodes|Add a node|搜索|添加)")
FOUND = ".p-autocomplete-option, #results-list [role=option]"  # older frontends, newer ones


def open_search(comfy: Any) -> Any:
    """Open the search for nodes, and give its box."""
    comfy.page.evaluate("() => app.extensionManager.command.execute('Workspace.SearchBox.Toggle')")
    return comfy.page.get_by_placeholder(SEARCH_BOX).last


def add_by_search(comfy: Any, words: str) -> None:
    """Add the node of which `words` are the name, as a user does."""
    page, box = comfy.page, open_search(comfy)
    box.fill(words)
    page.locator(FOUND, has_text=words).first.wait_for()
    box.press("Enter")
    box.wait_for(state="detached")
    page.mouse.click(700, 950)  # newer frontends let it follow the mouse until then


def found_by_search(comfy: Any, words: str, expected: str) -> list[str]:
    """What the open search gives for `words`, as soon as `expected` is among it."""
    comfy.page.get_by_placeholder(SEARCH_BOX).last.fill(words)
    comfy.page.locator(FOUND, has_text=expected).first.wait_for()
    return comfy.page.locator(FOUND).all_inner_texts()


def first_of(found: list[str], *names: str) -> int:
    """The place, from 1, of the first result with one of these names."""
    return next(at for at, text in enumerate(found, 1) if any(name in text for name in names))

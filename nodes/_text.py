"""A report as our nodes give it: English on the wire and in `ui`, with keys for the page."""

import json
from typing import Any

from ..headroom.base.said import said_json


def text_ui(text: str) -> dict[str, list[str]]:
    """Return what a node shows: its text, and as JSON what a page says in another language.

    A string, since hosts count dictionaries in `ui` as files that the node has saved.
    """
    told: Any = said_json(text)
    return {"text": [str(text)], "headroom": [json.dumps(told, ensure_ascii=False)]}

"""What happens to a prompt when it is posted, before ComfyUI validates it."""

import logging
import os
from collections.abc import Mapping
from typing import Any

from ..base.graph import Graph
from ..base.guards import guarded
from ..base.node_types import Registry
from .settings import guards_all, with_browser_wish
from .words import not_guarded

log = logging.getLogger("headroom")


def as_wished(posted: Any, browser: Mapping[str, Any], registry: Registry) -> Any:
    """Return the posted JSON, with guards on every wire if the settings say so.

    It adds what the browser's user wants after an out-of-memory error. JSON that is no prompt is
    returned unchanged, and ComfyUI refuses it.
    """
    if not isinstance(posted, dict):
        return posted
    extra_data = with_browser_wish(posted.get("extra_data"), browser)
    changed = {} if extra_data is posted.get("extra_data") else {"extra_data": extra_data}
    prompt = posted.get("prompt")
    if guards_all(extra_data, os.environ, browser) and isinstance(prompt, dict):
        found = guarded(Graph(prompt, registry))
        changed["prompt"] = found.prompt
        if found.left:
            log.warning("[Headroom] %s", not_guarded(found.left))
    return {**posted, **changed}

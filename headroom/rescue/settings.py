"""What happens after an out-of-memory error, to the queue, and whether every run is guarded.

A prompt's own `extra_data.headroom` has priority over the server's environment, and this over the
settings of the browser's user.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any, Literal, get_args

from ..base.environment import ignore, is_new, word_of
from ..base.graph import Graph
from ..base.guards import guarded
from ..base.node_types import Registry
from .words import not_guarded

log = logging.getLogger("headroom")

Rescue = Literal["off", "offer", "automatic"]
Guard = Literal["off", "all"]
Queue = Literal["off", "keep", "resume"]

RESCUE_VARIABLE = "HEADROOM_RESCUE"
GUARD_VARIABLE = "HEADROOM_GUARD"
QUEUE_VARIABLE = "HEADROOM_QUEUE"
RESCUE_SETTING = "Headroom.Rescue.AfterOutOfMemory"
GUARD_SETTING = "Headroom.Rescue.GuardEveryRun"
QUEUE_SETTING = "Headroom.Server.KeepQueue"
BROWSER_RESCUE: dict[str, Rescue] = {
    "nothing": "off", "offer to run it again": "offer", "run it again": "automatic",
}
# The key under which the browser user's wish is stored in a prompt, from its post to its end.
BROWSER_KEY = "browser_rescue"


def rescue_of(extra_data: Any, environment: Mapping[str, str]) -> Rescue:
    """Return what happens after an out-of-memory error of a prompt with this `extra_data`."""
    asked = _flag(extra_data, "rescue")
    if asked is not None:
        return "automatic" if asked else "off"
    word = word_of(environment, RESCUE_VARIABLE, get_args(Rescue))
    if word is None:
        kept = own_part(extra_data).get(BROWSER_KEY)
        word = kept if kept in get_args(Rescue) else "offer"
    return word  # type: ignore[return-value]


def guards_all(extra_data: Any, environment: Mapping[str, str], browser: Mapping[str, Any]) -> bool:
    """Return whether all wires of a prompt get guards before ComfyUI validates it."""
    asked = _flag(extra_data, "guard")
    if asked is not None:
        return asked
    word = word_of(environment, GUARD_VARIABLE, get_args(Guard))
    return browser.get(GUARD_SETTING) is True if word is None else word == "all"


def queue_of(environment: Mapping[str, str], browser: Mapping[str, Any]) -> Queue:
    """Return what will happen to the queue; the server's environment wins over the browser."""
    word = word_of(environment, QUEUE_VARIABLE, get_args(Queue))
    if word is None:
        word = "off" if browser.get(QUEUE_SETTING) is False else "keep"
    return word  # type: ignore[return-value]


def with_browser_wish(extra_data: Any, browser: Mapping[str, Any]) -> Any:
    """Return `extra_data` with the wish of the browser's user, unless that is the default."""
    wish = browser.get(RESCUE_SETTING)
    word = BROWSER_RESCUE.get(wish, "offer") if isinstance(wish, str) else "offer"
    own = {key: value for key, value in own_part(extra_data).items() if key != BROWSER_KEY}
    if word != "offer":
        own[BROWSER_KEY] = word
    if own == own_part(extra_data) or not isinstance(extra_data, (dict, type(None))):
        return extra_data
    return {**(extra_data or {}), "headroom": own}


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
        found = guarded(Graph(registry.with_new_names(prompt), registry))
        changed["prompt"] = found.prompt
        if (told := not_guarded(found.left)) and is_new(GUARD_VARIABLE, told):
            log.warning("[Headroom] %s", told)
    return {**posted, **changed}


def own_part(extra_data: Any) -> dict[str, Any]:
    """Return `extra_data.headroom`; empty if it is no object."""
    own = extra_data.get("headroom") if isinstance(extra_data, dict) else None
    if own is not None and not isinstance(own, dict):
        ignore("extra_data.headroom", own, 'an object such as {"rescue": true, "guard": true}')
        return {}
    return own or {}


def _flag(extra_data: Any, name: str) -> bool | None:
    value = own_part(extra_data).get(name)
    if value is None or isinstance(value, bool):
        return value
    ignore(f"extra_data.headroom.{name}", value, "true or false")
    return None

"""The settings of a browser's user, which ComfyUI keeps on the server."""

from types import SimpleNamespace
from typing import Any

from aiohttp import web
from server import PromptServer


def settings_of_the_only_user() -> dict[str, Any]:
    """Return the browser settings; nothing if ComfyUI keeps several users. Reads a file."""
    return settings_of(SimpleNamespace(headers={}))  # a request that names no user


def settings_of(request: Any) -> dict[str, Any]:
    """Return the browser settings of the user who sends this request; may read a file."""
    manager = getattr(PromptServer.instance, "user_manager", None)
    if manager is None or request is None:
        return {}
    try:
        manager.get_request_user_id(request)  # for an unknown user get_settings logs an error
        return dict(manager.settings.get_settings(request))
    except (KeyError, OSError, web.HTTPException):
        return {}  # ComfyUI does not know this user, or cannot make the user's folder

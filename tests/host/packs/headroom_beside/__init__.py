"""A route that tells what runs in this server beside the nodes, whoever put it there."""

import gc
import logging
import re
import threading

from aiohttp import web
from comfy_execution.progress import get_progress_state
from server import PromptServer

NODE_CLASS_MAPPINGS = {}
FILES = ("/extensions/headroom", "/workflow_templates/headroom")  # which ComfyUI serves
SERVER = PromptServer.instance
FROZEN = gc.get_freeze_count()  # of who started this process


def place_of(call):
    """Where a function or object was made."""
    known = call if hasattr(call, "__qualname__") else type(call)
    return f"{known.__module__}.{known.__qualname__}"


@SERVER.routes.get("/headroom_beside")
async def beside(_request):
    app = SERVER.app
    return web.json_response({
        # ComfyUI's own pools grow with what is asked.
        "threads": sorted({re.sub(r"_?\d+$", "", one.name) for one in threading.enumerate()}
                          - {"asyncio"}),
        "log handlers": [place_of(one) for one in logging.getLogger().handlers],
        "middlewares": [place_of(one) for one in app.middlewares],
        "starting": len(app.on_startup),
        "prompt handlers": [place_of(one) for one in SERVER.on_prompt_handlers],
        "progress handlers": sorted(get_progress_state().handlers),
        "routes": sorted({one.resource.canonical for one in app.router.routes()
                          if one.resource and "/headroom/" in one.resource.canonical
                          and not one.resource.canonical.endswith(FILES)}),
        "left out of collections": gc.get_freeze_count() > FROZEN,
    })

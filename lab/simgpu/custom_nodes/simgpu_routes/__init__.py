"""The HTTP side of the simulated GPU, added to ComfyUI's own routes when it loads custom nodes.

`main.py` names this folder to ComfyUI as one more place of custom nodes; it has no nodes.
"""

import asyncio
import sys

from aiohttp import web
from server import PromptServer

NODE_CLASS_MAPPINGS: dict[str, type] = {}
routes = sys.modules["simgpu.routes"]  # loaded by main.py before ComfyUI


@PromptServer.instance.routes.get("/simgpu/ledger")
async def _ledger(request: web.Request) -> web.Response:
    return web.json_response(routes.ledger())


@PromptServer.instance.routes.get("/simgpu/fault")
async def _fault(request: web.Request) -> web.Response:
    return web.json_response(routes.fault())


@PromptServer.instance.routes.get("/simgpu/pending")
async def _pending(request: web.Request) -> web.Response:
    flags = PromptServer.instance.prompt_queue.get_flags(reset=False)
    return web.json_response({"free": bool(flags)})


async def _answer(request: web.Request) -> web.Response:
    action = routes.ACTIONS[request.match_info["action"]]
    try:
        body = await request.json() if request.can_read_body else {}
        return web.json_response(await asyncio.to_thread(action, body))
    except (TypeError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=400)


for _name in routes.ACTIONS:
    PromptServer.instance.routes.post(f"/simgpu/{{action:{_name}}}")(_answer)

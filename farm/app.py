"""A door as an ASGI application: ComfyUI's own routes, with and without `/api`."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from .access import Access, App
from .comfy import session
from .door import Door
from .history import job_of, number_of, page_of, rerun_of
from .line import Refused
from .proxy import Proxy
from .sockets import hear, listen
from .store import MOST_ENDED, without_secrets
from .words import FarmError, Json

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def application(door: Door, token: str, most_bytes: int) -> App:
    """Return the application: the door opens when it starts, and its store closes when it ends."""

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        async with session() as found:
            app.router.routes.extend(Routes(door, Proxy(door, found)).all())
            door.open()
            heard = [asyncio.ensure_future(hear(door, seat, found)) for seat in door.seats.values()]
            try:
                yield
            finally:
                for task in heard:
                    task.cancel()
                await asyncio.gather(*heard, return_exceptions=True)
                await door.close()
                door.store.close()

    handlers = dict.fromkeys((FarmError, Refused), _wrong)
    return Access(Starlette(lifespan=life, exception_handlers=handlers), token, most_bytes)


def _answer(content: Any, status: int = 200) -> Response:
    """JSON as ComfyUI writes it: in ASCII, since half a surrogate pair in a prompt is no UTF-8."""
    return Response(json.dumps(content), status, media_type="application/json")


def _wrong(_: Request, error: Exception) -> Response:
    return _answer(error.answer if isinstance(error, Refused) else {"error": str(error)}, 400)


class Routes:
    """The routes that a door answers itself; it passes everything else on to a server."""

    def __init__(self, door: Door, proxy: Proxy) -> None:
        self.door, self.proxy = door, proxy

    def all(self) -> Sequence[BaseRoute]:
        own = [
            ("/prompt", "POST", self.prompt), ("/prompt", "GET", self.remaining),
            ("/queue", "GET", self.queue), ("/queue", "POST", self.change_queue),
            ("/history", "GET", self.history), ("/history", "POST", self.change_history),
            ("/history/{prompt_id}", "GET", self.entry),
            ("/interrupt", "POST", self.interrupt), ("/free", "POST", self.free),
            ("/upload/image", "POST", self.proxy.upload),
            ("/upload/mask", "POST", self.proxy.upload),
            ("/system_stats", "GET", self.system_stats), ("/jobs", "GET", self.jobs),
            ("/jobs/cancel", "POST", self.cancel_jobs),
            ("/jobs/{prompt_id}", "GET", self.job),
            ("/jobs/{prompt_id}/cancel", "POST", self.cancel_jobs),
            ("/headroom/rescue", "POST", self.rerun), ("/farm", "GET", self.farm),
        ]
        return [
            *(Route(prefix + path, handler, methods=[method])
              for prefix in ("", "/api") for path, method, handler in own),
            *(WebSocketRoute(prefix + "/ws", self.socket) for prefix in ("", "/api")),
            Route("/{path:path}", self.proxy.to_one, methods=METHODS),
        ]

    # ---------------------------------------------------- prompts

    async def prompt(self, request: Request) -> Response:
        """Accept a prompt: on disk when this answers."""
        try:
            body = await _object(request)
            prompt_id, number = await self.door.accept(body)
        except FarmError as error:
            said = {"type": "invalid_prompt", "message": str(error), "details": "",
                    "extra_info": {}}
            return _answer({"error": said, "node_errors": {}}, 400)
        return _answer({"prompt_id": prompt_id, "number": number, "node_errors": {}})

    async def rerun(self, request: Request) -> Response:
        """Queue the rerun of a prompt that has ended: a button of Headroom's panel."""
        ids = _texts([(await _object(request)).get("prompt_id")])
        kept = self.door.store.find(ids.pop()) if ids else None
        if kept is None or kept.entry is None:
            raise FarmError("prompt_id is expected to be that of a prompt that has ended here.")
        prompt_id, _ = await self.door.accept(rerun_of(kept.entry))
        return _answer({"prompt_id": prompt_id, "rescued_from": kept.id})

    async def remaining(self, _: Request) -> Response:
        return _answer(self.door.status()["status"])

    async def queue(self, _: Request) -> Response:
        found: dict[str, list[Any]] = {"queue_running": [], "queue_pending": []}
        for kept in self.door.store.open():
            item = [kept.number, kept.id, kept.prompt, without_secrets(kept.extra), []]
            found[f"queue_{'running' if kept.state == 'running' else 'pending'}"].append(item)
        return _answer(found)

    async def change_queue(self, request: Request) -> Response:
        body = await _object(request)
        self.door.cancel(None if body.get("clear") else _texts(body.get("delete")))
        return Response()

    async def interrupt(self, request: Request) -> Response:
        await self._interrupt((await _object(request, {})).get("prompt_id"))
        return Response()

    async def _interrupt(self, prompt_id: str | None) -> bool:
        found = self.door.interrupt(prompt_id)
        await asyncio.gather(*(
            self.proxy.ask(seat, "POST", "/interrupt", json={"prompt_id": attempt})
            for seat, attempt in found))
        return bool(found)

    async def free(self, request: Request) -> Response:
        await self.proxy.ask_all(self.door.there(), "POST", "/free", await _object(request))
        return Response()

    # ---------------------------------------------------- results

    async def history(self, request: Request) -> Response:
        """Return how prompts ended, oldest first."""
        most = number_of(request.query_params, "max_items", MOST_ENDED)
        offset = number_of(request.query_params, "offset", -1)
        return _answer(dict(self.door.store.entries(max(0, most), offset)))

    async def entry(self, request: Request) -> Response:
        """Return how one prompt ended; nothing while it waits or runs."""
        kept = self.door.store.find(request.path_params["prompt_id"])
        return _answer({kept.id: kept.entry} if kept and kept.entry else {})

    async def change_history(self, request: Request) -> Response:
        """Forget results; files stay with their servers."""
        body = await _object(request)
        self.door.store.drop_ended(None if body.get("clear") else _texts(body.get("delete")))
        return Response()

    async def jobs(self, request: Request) -> Response:
        """Return queue and history in the form that newer frontends ask for."""
        return _answer(page_of(request.query_params, self.door.store))

    async def job(self, request: Request) -> Response:
        """Return one prompt, with its outputs once it has ended."""
        kept = self.door.store.find(request.path_params["prompt_id"])
        if kept is None:
            return _answer({"error": "Job not found"}, 404)
        return _answer(job_of(kept, is_whole=True))

    async def cancel_jobs(self, request: Request) -> Response:
        one = request.path_params.get("prompt_id")
        wanted = {one} if one else _texts((await _object(request)).get("job_ids"))
        left = wanted.difference(self.door.cancel(wanted))
        stopped = [await self._interrupt(prompt_id) for prompt_id in left]
        return _answer({"cancelled": len(left) < len(wanted) or any(stopped)})

    # ---------------------------------------------------- servers

    async def system_stats(self, request: Request) -> Response:
        """Return the first server's answer, with the devices of all."""
        answers = await self.proxy.ask_all(self.door.there(), "GET", "/system_stats")
        found = [one for one in answers if isinstance(one, dict)]
        if not found:
            return await self.proxy.to_one(request)
        devices = [device for one in found for device in one.get("devices", ())]
        return _answer({**found[0], "devices": devices})

    async def farm(self, _: Request) -> Response:
        """Return what every server does, and what is known of its memory."""
        return _answer({"remaining": self.door.remaining,
                        "servers": [seat.told() for seat in self.door.seats.values()]})

    async def socket(self, socket: WebSocket) -> None:
        await listen(socket, self.door, self.proxy)


async def _object(request: Request, default: Json | None = None) -> Json:
    """The JSON object of a body; FarmError for anything else."""
    data = await request.body()
    try:
        found = json.loads(data) if data.strip() or default is None else default
    except (ValueError, RecursionError) as error:
        raise FarmError(f"The body is no JSON: {str(error)[:200]}.") from error
    if not isinstance(found, dict):
        raise FarmError("The body is expected to be a JSON object.")
    return found


def _texts(found: Any) -> set[str]:
    """Those texts of a list that may be ids: printable, as `wish_of` wants them, SQLite too."""
    several = found if isinstance(found, list) else []
    return {one for one in several if isinstance(one, str) and one.isprintable()}

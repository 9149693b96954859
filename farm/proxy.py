"""What a door passes on to a server: pages, lists, pictures, uploads; it reads no file itself."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from yarl import URL

from .clients import seat_tag
from .comfy import SILENT_SECONDS
from .door import Door
from .seat import Seat
from .words import Json

CHUNK_BYTES = 1 << 16
# What belongs to one connection, or proves who somebody is to the door and not to the server.
KEPT_BACK = frozenset({
    "host", "origin", "connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer",
    "proxy-authorization", "proxy-connection", "authorization", "cookie", "expect",
})
NOT_RETURNED = frozenset({"connection", "keep-alive", "transfer-encoding", "date", "server"})
NOBODY = "No server of the farm answers now; prompts are accepted, and wait."


class Proxy:
    """Passes requests on. Bodies and answers go through piece by piece."""

    def __init__(self, door: Door, session: aiohttp.ClientSession) -> None:
        self._door, self._session = door, session

    def _page_seat(self) -> Seat | None:
        """The server that answers for all: the first that is there, else the first that sleeps."""
        asleep = (seat for seat in self._door.seats.values() if seat.state == "asleep")
        return next(iter(self._door.there()), None) or next(asleep, None)

    async def to_one(self, request: Request) -> Response:
        """Pass a request on to the server that has the file, or to the one that answers for all."""
        seat, query = self._owner(request.url.query)
        raw_path = request.scope.get("raw_path") or request.url.path.encode()
        path = raw_path.decode("latin-1").partition("?")[0]
        if seat is None:
            seat, path = self._ran(path)
        if seat is not None and seat.may_sleep:
            self._door.want(seat)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(seat.answers.wait(), SILENT_SECONDS)
        if seat is None or not seat.answers.is_set():
            return JSONResponse({"error": NOBODY}, 503)
        url = seat.server.facts.url + path
        headers = [(name, value) for name, value in request.headers.items()
                   if name not in KEPT_BACK and not name.startswith("x-farm-")]
        has_body = request.method not in ("GET", "HEAD", "OPTIONS")
        try:
            answer = await self._session.request(
                request.method, URL(f"{url}?{query}" if query else url, encoded=True),
                headers=headers, data=request.stream() if has_body else None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            said = f"{seat.server.name} does not answer ({type(error).__name__})."
            return JSONResponse({"error": said}, 502)
        response = StreamingResponse(_pieces(answer), answer.status)
        response.raw_headers = [
            (name.lower(), value) for name, value in answer.raw_headers
            if name.lower().decode("latin-1") not in NOT_RETURNED
        ]
        return response

    def _ran(self, path: str) -> tuple[Seat | None, str]:
        """The server that has Headroom's record of a prompt, under its id there; else any."""
        before, _, prompt_id = path.rpartition("/")
        is_record = before.endswith("/headroom/runs")
        kept = self._door.store.find(prompt_id) if is_record else None
        farm = kept.entry["farm"] if kept and kept.entry else {}
        seat = self._door.seats.get(farm.get("server", ""))
        return (seat or self._page_seat(),
                f"{before}/{farm['attempt']}" if seat and farm.get("attempt") else path)

    def _owner(self, query: str) -> tuple[Seat | None, str]:
        """Find whose file is meant; `subfolder` begins with its server's tag."""
        words = parse_qsl(query, keep_blank_values=True)
        folder = dict(words).get("subfolder", "")
        tag, _, below = folder.partition("/")
        for name, seat in self._door.seats.items():
            if tag and tag == seat_tag(name):
                return seat, urlencode([(key, below if key == "subfolder" else value)
                                        for key, value in words])
        return None, query

    # ---------------------------------------------------- every server

    async def ask(self, seat: Seat, method: str, path: str, **options: Any) -> Any:
        """The JSON of a server's answer, the text where it is none, or None without one."""
        try:
            async with self._session.request(
                method, seat.server.facts.url + path, **options
            ) as answer:
                if answer.status != 200:
                    return None
                is_json = answer.content_type == "application/json"
                return await (answer.json() if is_json else answer.read())
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None

    async def ask_all(
        self, seats: Sequence[Seat], method: str, path: str, body: Json | None = None
    ) -> list[Any]:
        return list(await asyncio.gather(
            *(self.ask(seat, method, path, json=body) for seat in seats)))

    async def upload(self, request: Request) -> Response:
        """Have an uploaded picture on every server, under the name that the first gives it."""
        response = await self.to_one(request)
        if not isinstance(response, StreamingResponse) or response.status_code != 200:
            return response
        data = b"".join([bytes(piece) async for piece in response.body_iterator])
        said, first = json.loads(data), self._page_seat()
        place = {"subfolder": said["subfolder"], "type": said["type"]}
        others = [seat for seat in self._door.there() if seat is not first]
        if first is not None and others:
            query = {**place, "filename": said["name"]}
            if isinstance(picture := await self.ask(first, "GET", "/view", params=query), bytes):
                await asyncio.gather(
                    *(self._copy(seat, place, said["name"], picture) for seat in others))
        return Response(data, 200, media_type="application/json")

    async def _copy(self, seat: Seat, place: Json, name: str, picture: bytes) -> None:
        form = aiohttp.FormData({"overwrite": "true", **place})
        form.add_field("image", picture, filename=name)
        await self.ask(seat, "POST", "/upload/image", data=form)


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.content.iter_chunked(CHUNK_BYTES):
            yield piece
    finally:
        answer.close()

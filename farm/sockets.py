"""The WebSockets of a door: what servers say while they work, and clients that are told of it."""

import asyncio
import contextlib
import json
import uuid

import aiohttp
from starlette.websockets import WebSocket, WebSocketDisconnect

from .clients import Client, event, event_of, renamed, seat_tag, tagged
from .door import CLIENT_ID, Door
from .history import ENDINGS
from .proxy import Proxy
from .seat import Seat

AGAIN_SECONDS = 1.0
LARGEST_BYTES = 64 << 20


async def hear(door: Door, seat: Seat, session: aiohttp.ClientSession) -> None:
    """Listen to one server for ever, again and again where the connection breaks."""
    while True:
        await seat.answers.wait()
        is_gone = False
        try:
            async with session.ws_connect(
                f"{seat.server.facts.url}/ws", params={"clientId": CLIENT_ID},
                max_msg_size=LARGEST_BYTES, heartbeat=30.0,
            ) as socket:
                await socket.send_str(event("feature_flags", {"supports_preview_metadata": True}))
                seat.is_heard.set()
                async for message in socket:
                    _heard(door, seat, message)
        except aiohttp.ClientConnectorError:
            is_gone = True  # nobody listens there: it ended before it was heard
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass  # its prompt, or the next start of it, says why
        if is_gone or seat.is_heard.is_set():
            door.is_deaf(seat)
        await asyncio.sleep(AGAIN_SECONDS)


def _heard(door: Door, seat: Seat, message: aiohttp.WSMessage) -> None:
    begun = door.begun.get(seat.server.name)
    if begun is not None and message.type == aiohttp.WSMsgType.BINARY:
        door.clients.tell(begun.client_id, renamed(message.data, begun.kept.id))
    found = event_of(message.data) if message.type == aiohttp.WSMsgType.TEXT else None
    if begun is None or found is None or found.get("type") in ("status", "feature_flags"):
        return  # of that server, which has one prompt of a door's at a time
    kind, data = found.get("type"), found["data"]
    if kind == "execution_start":
        door.starts(seat.server.name)
    is_over = kind == "executing" and data.get("node") is None
    if is_over:
        seat.work.wake()  # its prompt has ended
    if is_over or kind in ENDINGS:
        return  # told once the result is kept; a rescued prompt goes on
    told = json.dumps(tagged(found, seat_tag(seat.server.name)))
    if isinstance(data.get("prompt_id"), str):  # it stands deeper in some messages too
        told = told.replace(json.dumps(data["prompt_id"]), json.dumps(begun.kept.id))
    if kind == "executing":
        begun.last_node = told
    door.clients.tell(begun.client_id, told)


# ---------------------------------------------------- clients


async def listen(socket: WebSocket, door: Door, proxy: Proxy) -> None:
    """Tell a client of its prompts until it goes, or is too far behind."""
    await socket.accept()
    client = Client(socket.query_params.get("clientId") or uuid.uuid4().hex)
    door.clients[client.id] = client
    client.send(event("status", {**door.status(), "sid": client.id}))
    for begun in door.begun.values():
        if begun.client_id == client.id and begun.last_node:
            client.send(begun.last_node)
    works = [asyncio.ensure_future(work) for work in (
        _read(socket, client, door, proxy), _tell(socket, client), client.is_behind.wait())]
    try:
        await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if door.clients.get(client.id) is client:
            del door.clients[client.id]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # closed already
            await socket.close()


async def _read(socket: WebSocket, client: Client, door: Door, proxy: Proxy) -> None:
    """Read until the client goes; its first message may say what it understands."""
    with contextlib.suppress(WebSocketDisconnect, KeyError):  # KeyError: a binary message
        while True:
            said = event_of(await socket.receive_text())
            if said is not None and said.get("type") == "feature_flags":
                client.takes_metadata = bool(said["data"].get("supports_preview_metadata"))
                seat = next(iter(door.there()), None)
                known = await proxy.ask(seat, "GET", "/features") if seat else None
                client.send(event("feature_flags", known if isinstance(known, dict) else {}))


async def _tell(socket: WebSocket, client: Client) -> None:
    while True:
        message = await client.queue.get()
        if isinstance(message, bytes):
            await socket.send_bytes(message)
        else:
            await socket.send_text(message)

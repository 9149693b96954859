"""A client's WebSocket at a door: it is told what happens to its own prompts."""

import asyncio
import contextlib
import uuid

from starlette.websockets import WebSocket, WebSocketDisconnect

from .clients import Client, event, event_of
from .door import Door
from .proxy import Proxy


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

"""What the servers say while they work: heard over their WebSockets, told to whose prompt it is."""

import asyncio
import json

import aiohttp

from .clients import event, event_of, renamed, seat_tag, tagged
from .door import CLIENT_ID, Door
from .history import ENDINGS
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

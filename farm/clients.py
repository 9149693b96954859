"""The door's clients: who has a WebSocket open, and what each is told of its own prompts."""

import asyncio
import json
import struct
from typing import Any

from .words import Json, plain

BACKLOG = 2000  # messages that a slow client may be behind; then its connection is closed
WITH_METADATA, PREVIEW = 4, 1  # kinds of ComfyUI's binary messages
KINDS_OF_IMAGE = {"image/jpeg": 1, "image/png": 2}


class Client:
    """One connection. What is sent waits in a queue, so that nobody waits for a slow client."""

    def __init__(self, client_id: str) -> None:
        self.id = client_id
        self.takes_metadata = False
        self.is_behind = asyncio.Event()
        self.queue: asyncio.Queue[str | bytes] = asyncio.Queue(BACKLOG)

    def send(self, message: str | bytes) -> None:
        if isinstance(message, bytes) and not self.takes_metadata:
            message = plain_preview(message)
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            self.is_behind.set()


class Clients(dict[str, Client]):
    """Every client, by its id; a second connection under an id takes the place of the first."""

    def tell(self, client_id: str, message: str | bytes) -> None:
        if client_id in self:
            self[client_id].send(message)

    def tell_all(self, message: str) -> None:
        for client in self.values():
            client.send(message)


def event(kind: str, data: Json) -> str:
    """Return a message as ComfyUI writes it."""
    return json.dumps({"type": kind, "data": data})


def event_of(text: str) -> Json | None:
    """Return the message that a text is; None for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_event = isinstance(found, dict) and isinstance(found.get("data"), dict)
    return found if is_event else None


def renamed(message: bytes, prompt_id: str) -> bytes:
    """Return a preview with the client's own id of the prompt in its metadata, if it has any."""
    about, image = _parts(message)
    if about is None:
        return message
    metadata = json.dumps({**about, "prompt_id": prompt_id}).encode()
    return struct.pack(">II", WITH_METADATA, len(metadata)) + metadata + image


def plain_preview(message: bytes) -> bytes:
    """Return a preview for a client that knows none with metadata."""
    about, image = _parts(message)
    if about is None:
        return message
    kind = KINDS_OF_IMAGE.get(str(about.get("image_type")), 1)
    return struct.pack(">II", PREVIEW, kind) + image


def _parts(message: bytes) -> tuple[Json | None, bytes]:
    """Return a preview's metadata, None where it has none that can be read, and its picture."""
    if len(message) < 8:
        return None, message
    head, length = struct.unpack(">II", message[:8])
    try:
        found = json.loads(message[8:8 + length]) if head == WITH_METADATA else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else None, message[8 + length:]


def tagged(value: Any, tag: str) -> Any:
    """Return outputs in which the folder of each saved file says whose server has it."""
    if isinstance(value, list):
        return [tagged(item, tag) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("filename"), str) and value.get("type") in ("output", "temp"):
        below = value.get("subfolder") or ""
        return {**value, "subfolder": f"{tag}/{below}" if below else tag}
    return {name: tagged(item, tag) for name, item in value.items()}


def seat_tag(server: str) -> str:
    """Return the folder under which clients see the files of a server."""
    return "@" + plain(server.split("://")[-1])

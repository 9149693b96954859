"""HTTP to one ComfyUI server, with or without the Headroom pack."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import aiohttp

from .words import Facts, Json

REQUEST_SECONDS = 10.0  # a heartbeat: more than one may fail before a server counts as hung
PAUSE_SECONDS = 0.25
LOOK_SECONDS = (0.1, 1.0)  # between looks at a prompt that runs: at first, at most
LOOKS_IN_QUEUE = 5
SETTLE_SECONDS = 2.0
BROKEN_CONNECTIONS = 3  # an idle one may be closed at the moment in which it is used again
CHUNK_BYTES = 1 << 20
SILENT_SECONDS = 120.0  # of a server that answers one of the door's clients
FAILS = (aiohttp.ClientError, asyncio.TimeoutError, OSError)
TARGETS = "partial_execution_targets"  # beside the prompt in a body; kept in its extra_data


class Unreachable(RuntimeError):
    """The server is gone, or has not answered for too long."""


class Unknown(RuntimeError):
    """The server answered something that nobody expects; the message says what."""


class Comfy:
    """One server. `patience_seconds` without an answer make it hung.

    `is_alive` says whether its process runs; a server that was only adopted always counts as such.
    """

    def __init__(
        self, url: str, patience_seconds: float, is_alive: Callable[[], bool] = lambda: True,
        token: str = "",
    ) -> None:
        self.url = url
        self._patience = patience_seconds
        self._is_alive = is_alive
        self._total_mib: float | None = None
        self._woken = asyncio.Event()
        # The token is of a farm, which answers as a server does.
        self._session = session({"X-Farm-Token": token} if token else {})

    async def close(self) -> None:
        await self._session.close()

    # ---------------------------------------------------- prompts

    async def queue(self, prompt_id: str, prompt: Json, extra_data: Json) -> Any:
        """Queue a prompt under this id; return the answer of a server that refuses it, or None."""
        extra = dict(extra_data)
        body = {"prompt_id": prompt_id, "prompt": prompt, "extra_data": extra}
        if TARGETS in extra:  # a part of the graph only: the frontend's "run to this node"
            body[TARGETS] = extra.pop(TARGETS)
        try:
            status, answer = await self.ask("POST", "/prompt", body, repeat=False)
        except Unreachable:  # a connection may break after the server has read the request
            if await self.has(prompt_id):
                return None
            status, answer = await self.ask("POST", "/prompt", body, repeat=False)
        if status == 200 and not (isinstance(answer, dict) and answer.get("node_errors")):
            return None
        if status >= 500:
            raise Unknown(f"POST /prompt answered {status}")
        if status == 200:
            await self.forget([prompt_id])  # what it did accept of it
        return answer

    async def has(self, prompt_id: str) -> bool:
        """Whether a prompt waits, runs or has ended there."""
        queue = await self._get("/queue")
        listed = [*queue.get("queue_running", ()), *queue.get("queue_pending", ())]
        is_open = any(item[1] == prompt_id for item in listed)
        return is_open or await self.ended(prompt_id) is not None

    async def ended(self, prompt_id: str) -> Json | None:
        """Return the history entry of a prompt that has ended."""
        _, answer = await self.ask("GET", f"/history/{prompt_id}")
        found = answer.get(prompt_id) if isinstance(answer, dict) else None
        return dict(found) if found is not None else None

    async def wait(self, prompt_id: str, until: float) -> Json | None:
        """Return the history entry once there is one; None when the clock says `until` first.

        Unknown when the server forgot the prompt: it was started anew.
        """
        (first, most), began, looks = LOOK_SECONDS, time.monotonic(), 0
        while (entry := await self.ended(prompt_id)) is None:
            if time.monotonic() > until:
                return None
            looks += 1
            if looks % LOOKS_IN_QUEUE == 0 and not await self.has(prompt_id):
                raise Unreachable("it no longer knows the prompt: it was started anew")
            # Who listens to the server wakes this; looks are for what nobody hears, such as a hang.
            pause = min(most, first + (time.monotonic() - began) / 20)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._woken.wait(), pause)
            self._woken.clear()
        return entry

    def wake(self) -> None:
        """Have `wait` look at once: somebody heard that a prompt has ended."""
        self._woken.set()

    async def forget(self, prompt_ids: Sequence[str]) -> None:
        """Take prompts out of the queue, and interrupt the one of them that runs."""
        await self.ask("POST", "/queue", {"delete": list(prompt_ids)})
        queue = await self._get("/queue")
        for item in queue.get("queue_running", ()):
            if item[1] in prompt_ids:
                await self.ask("POST", "/interrupt", {"prompt_id": item[1]})

    # ---------------------------------------------------- memory

    async def facts(self) -> Facts:
        """What the server tells of its memory; without Headroom only the size of its GPU."""
        answer = await self._ready(0)
        if "free_mib" in answer:
            free = answer["free_mib"]
            room = None if free is None else free + answer["evictable_mib"]
            self._total_mib = self._total_mib or await self._size_of(answer["device"])
            return Facts(self._total_mib, room, True, self.url)
        status, answer = await self.ask("GET", "/system_stats")
        devices = answer.get("devices") if isinstance(answer, dict) else None
        if status != 200 or not isinstance(devices, list):
            raise Unreachable(
                f"it is no ComfyUI: GET /system_stats gave {status} and no list of devices"
            )
        total = devices[0].get("vram_total") if devices else None
        return Facts(total / 2**20 if total else None, url=self.url)

    async def is_ready(self, room_mib: float) -> bool:
        """Whether there is room for a prompt; True where nobody tells."""
        answer = await self._ready(int(room_mib))
        return bool(answer.get("ready", True)) or answer.get("free_mib", 0) is None

    async def _ready(self, room_mib: int) -> Json:
        """The answer once nothing runs: a prompt that has ended counts as running for a moment."""
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            status, answer = await self.ask("GET", f"/headroom/ready?free_mib={room_mib}")
            if status not in (200, 503) or not isinstance(answer, dict):
                return {}
            if not answer.get("running") or time.monotonic() > until:
                return answer
            await asyncio.sleep(PAUSE_SECONDS / 5)

    async def estimate(self, prompt: Json) -> float:
        """Return what Headroom guesses that a prompt needs at least; 0 where nobody does."""
        status, answer = await self.ask("POST", "/headroom/estimate", {"prompt": prompt})
        return float(answer["needs_mib"][0]) if status == 200 else 0.0

    async def record(self, prompt_id: str) -> Json:
        """Return Headroom's record of a run; nothing where there is none."""
        status, answer = await self.ask("GET", f"/headroom/runs/{prompt_id}")
        return dict(answer) if status == 200 and isinstance(answer, dict) else {}

    async def _size_of(self, device: str) -> float | None:
        answer = await self._get("/headroom/memory")
        found = [item["total_mib"] for item in answer["devices"] if item["device"] == device]
        if not found and device == "cpu":
            found = [answer["ram"]["total_mib"]]
        return found[0] if found else None

    # ---------------------------------------------------- requests

    async def ask(
        self, method: str, path: str, body: Any = None, repeat: bool = True
    ) -> tuple[int, Any]:
        """Status and JSON body; asked until there is an answer or the server counts as gone.

        A request that must not come twice does not `repeat`.
        """
        until, broken = time.monotonic() + self._patience, 0
        while True:
            try:
                patience = min(REQUEST_SECONDS, self._patience) if repeat else self._patience
                async with self._session.request(
                    method, self.url + path, json=body, timeout=_silence(patience)
                ) as answer:
                    return answer.status, _json(await answer.text(errors="replace"))
            except FAILS as error:
                if not self._is_alive():
                    raise Unreachable("its process has ended") from error
                is_silent = isinstance(error, asyncio.TimeoutError)
                if is_silent and time.monotonic() > until:
                    raise Unreachable(
                        f"{self.url} has not answered for {self._patience:g} s") from error
                broken += 1
                if not is_silent and (broken >= BROKEN_CONNECTIONS or not repeat):
                    raise Unreachable(f"no connection to {self.url}") from error
            await asyncio.sleep(PAUSE_SECONDS)

    async def _get(self, path: str) -> Json:
        """The object that every ComfyUI answers there; Unreachable where something else does."""
        status, answer = await self.ask("GET", path)
        if status != 200 or not isinstance(answer, dict):
            raise Unreachable(f"it is no ComfyUI: GET {path} answered {status} and no object")
        return answer

    async def download(self, query: dict[str, str]) -> AsyncIterator[bytes]:
        """Yield a file of the server piece by piece."""
        try:
            async with self._session.get(
                f"{self.url}/view", params=query, timeout=_silence(self._patience)
            ) as answer:
                if answer.status != 200:
                    raise Unknown(f"GET /view of {query} answered {answer.status}")
                async for piece in answer.content.iter_chunked(CHUNK_BYTES):
                    yield piece
        except FAILS as error:
            raise Unreachable(f"it broke off a download ({type(error).__name__})") from error


def session(headers: Mapping[str, str] | None = None) -> aiohttp.ClientSession:
    """A session for servers: nothing is unpacked, no cookie kept, no proxy of the environment.

    In a running event loop.
    """
    return aiohttp.ClientSession(
        auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False,
        timeout=_silence(SILENT_SECONDS), connector=aiohttp.TCPConnector(limit=0),
        headers=headers, skip_auto_headers=("User-Agent", "Accept-Encoding"),
    )


def _silence(seconds: float) -> aiohttp.ClientTimeout:
    """How long a server may say nothing."""
    return aiohttp.ClientTimeout(
        total=None, sock_connect=min(REQUEST_SECONDS, seconds), sock_read=seconds)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

"""The HTTP routes: answers are made in threads, so the server's event loop never waits for them."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import torch
from aiohttp import web

from ..actions.offload import offload
from ..actions.purge import purge
from ..base.refusals import NotKnown, Refused
from ..measure.report import Report
from ..measure.snapshot import snapshot
from ..models.loaded import loaded_models, patchers_named
from ..record.recorder import Recorder
from .gate import Crowded, Gate
from .requests import (
    MAX_BODY_BYTES,
    BadRequest,
    OffloadRequest,
    PurgeRequest,
    memory_answer,
    offload_request,
    purge_request,
    rescue_request,
    runs_asked,
)

log = logging.getLogger("headroom")

Handler = Callable[[web.Request], Awaitable[web.Response]]
Asked = TypeVar("Asked")
READERS = 4
MAX_SENTENCE = 600


class Routes:
    """The handlers of our routes."""

    def __init__(
        self, recorder: Recorder, gate: Gate, prompts_waiting: Callable[[], bool],
        rescue: Callable[[str], Any],
    ) -> None:
        self._recorder = recorder
        self._gate = gate
        self._prompts_waiting = prompts_waiting
        self._rescue = rescue
        # Threads of our own: a driver that hangs must not take those that ComfyUI serves with.
        self._readers = ThreadPoolExecutor(READERS, "headroom answer")

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return (method, path, handler) of every route."""
        return [
            ("GET", "/headroom/memory", self.memory),
            ("GET", "/headroom/runs", self.runs),
            ("GET", "/headroom/runs/{prompt_id}", self.run),
            ("POST", "/headroom/purge", self.purge),
            ("POST", "/headroom/offload", self.offload),
            ("POST", "/headroom/rescue", self.rescue),
        ]

    async def memory(self, request: web.Request) -> web.Response:
        return await answered(self._read(self._memory))

    async def runs(self, request: web.Request) -> web.Response:
        return await answered(self._read(lambda: self._runs(dict(request.query))))

    async def run(self, request: web.Request) -> web.Response:
        return await answered(self._read(lambda: self._one_run(request.match_info["prompt_id"])))

    async def purge(self, request: web.Request) -> web.Response:
        return await answered(self._act(request, purge_request, _purge))

    async def offload(self, request: web.Request) -> web.Response:
        return await answered(self._act(request, offload_request, _offload))

    async def rescue(self, request: web.Request) -> web.Response:
        return await answered(self._rescued(request))

    async def _rescued(self, request: web.Request) -> str:
        asked = rescue_request(await body_of(request))
        return await self._read(lambda: self._rescue(asked))

    async def _read(self, work: Callable[[], Any]) -> str:
        """Do `work` in a thread and write its JSON there too."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, lambda: json.dumps(work()))

    async def _act(
        self, request: web.Request, read: Callable[[bytes], Asked], do: Callable[[Asked], Report]
    ) -> str:
        """Read what is asked, before anything else, and do it when nothing else runs."""
        asked = read(await body_of(request))
        return json.dumps((await self._gate.act(partial(_as_nodes_do, do, asked))).as_json())

    # ---------------------------------------------------- in a thread

    def _memory(self) -> Any:
        return memory_answer(snapshot(), loaded_models(), self._prompts_waiting())

    def _runs(self, query: dict[str, str]) -> Any:
        return {"runs": self._recorder.runs(runs_asked(query))}

    def _one_run(self, prompt_id: str) -> Any:
        found = self._recorder.run(prompt_id)
        if found is None:
            raise NotKnown(
                "No record of this prompt: it has not begun yet, or is older than the last runs "
                "that are kept."
            )
        return found


def _as_nodes_do(do: Callable[[Asked], Report], asked: Asked) -> Report:
    """Handle weights in the mode in which nodes run."""
    with torch.inference_mode():
        return do(asked)


def _purge(asked: PurgeRequest) -> Report:
    keep = patchers_named(list(asked.keep)) or None
    return purge(
        asked.unload, keep, asked.only_below_free_mib, asked.free_ram, asked.reset_node_cache
    )


def _offload(asked: OffloadRequest) -> Report:
    return offload(patchers_named([asked.model]), asked.scope, asked.to)


async def body_of(request: web.Request) -> bytes:
    """Return the body; BadRequest for one that is larger than any that could be meant."""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise BadRequest(
                f"Expected a body of at most {MAX_BODY_BYTES // 1024} KiB, but this one is larger."
            )
    return bytes(body)


async def answered(work: Awaitable[str]) -> web.Response:
    """Answer with the JSON text that `work` returns, or with one sentence for what it raises."""
    try:
        status, text = 200, await work
    except SENTENCES as error:
        status, text = status_of(error), json.dumps({"error": shortened(str(error))})
    except Exception as error:
        log.exception("[Headroom] a request failed")
        status, text = 409, json.dumps({"error": failure(error)})
    return web.Response(status=status, text=text, content_type="application/json")


# Whose text is a sentence for the sender. ValueError: BadRequest, a model that cannot be offloaded.
SENTENCES = (NotKnown, Refused, ValueError)


def status_of(error: Exception) -> int:
    """Return the HTTP status of an answer that is a sentence."""
    if isinstance(error, NotKnown):
        return 404
    if isinstance(error, Refused):
        return 429 if isinstance(error, Crowded) else 409
    return 400


def failure(error: Exception) -> str:
    """Return a sentence for an error of the system, of a driver or of another pack's model."""
    words = getattr(error, "strerror", None) or str(error).strip().split("\n")[0]
    detail = ": ".join(filter(None, (type(error).__name__, shortened(str(words)).rstrip("."))))
    return f"It could not be done ({detail}); the server's log says more."


def shortened(sentence: str) -> str:
    """Return `sentence`, cut where it quotes something long."""
    return sentence if len(sentence) <= MAX_SENTENCE else f"{sentence[: MAX_SENTENCE - 3]}..."

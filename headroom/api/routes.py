"""The HTTP routes: answers are made in threads, so the server's event loop never waits for them."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from aiohttp import web

from ..actions.offload import offload
from ..actions.purge import purge
from ..base.refusals import NotKnown, Refused
from ..measure.snapshot import snapshot
from ..models.loaded import loaded_models, patchers_named
from ..record.recorder import Recorder
from .gate import Gate
from .requests import (
    memory_answer,
    offload_request,
    purge_request,
    rescue_request,
    runs_asked,
)

log = logging.getLogger("headroom")

Handler = Callable[[web.Request], Awaitable[web.Response]]
Answer = tuple[int, Any]


class Routes:
    """The handlers of our routes."""

    def __init__(
        self, recorder: Recorder, gate: Gate, prompts_waiting: Callable[[], bool],
        worker_listens: Callable[[], bool], rescue: Callable[[str], Any],
    ) -> None:
        self._recorder = recorder
        self._gate = gate
        self._prompts_waiting = prompts_waiting
        self._worker_listens = worker_listens
        self._rescue = rescue

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
        return await _answered(self._memory)

    async def runs(self, request: web.Request) -> web.Response:
        return await _answered(lambda: self._runs(dict(request.query)))

    async def run(self, request: web.Request) -> web.Response:
        prompt_id = request.match_info["prompt_id"]
        return await _answered(lambda: self._one_run(prompt_id))

    async def purge(self, request: web.Request) -> web.Response:
        body = await request.read()
        return await _answered(lambda: self._purge(body))

    async def offload(self, request: web.Request) -> web.Response:
        body = await request.read()
        return await _answered(lambda: self._offload(body))

    async def rescue(self, request: web.Request) -> web.Response:
        body = await request.read()
        return await _answered(lambda: self._rescue(rescue_request(body)))

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

    def _purge(self, body: bytes) -> Any:
        asked = purge_request(body)
        with self._alone():
            keep = patchers_named(list(asked.keep))
            report = purge(
                asked.unload, keep or None, asked.only_below_free_mib, asked.free_ram,
                asked.reset_node_cache,
            )
        return report.as_json()

    def _offload(self, body: bytes) -> Any:
        asked = offload_request(body)
        with self._alone():
            report = offload(patchers_named([asked.model]), asked.scope, asked.to)
        return report.as_json()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No prompt runs meanwhile, and weights are handled in the mode in which nodes run."""
        with self._gate.action(self._worker_listens), torch.inference_mode():
            yield


async def _answered(work: Callable[[], Any]) -> web.Response:
    """Do `work` in a thread, write its JSON there too, and answer."""
    status, text = await asyncio.get_running_loop().run_in_executor(None, _written, work)
    return web.Response(status=status, text=text, content_type="application/json")


def _written(work: Callable[[], Any]) -> tuple[int, str]:
    status, answer = outcome(work)
    return status, json.dumps(answer)


def outcome(work: Callable[[], Any]) -> Answer:
    """Return the status and the JSON data for what `work` returns or raises."""
    try:
        return 200, work()
    except NotKnown as error:
        return 404, {"error": str(error)}
    except Refused as error:
        return 409, {"error": str(error)}
    except ValueError as error:  # ours (BadRequest), and a model that cannot be offloaded so
        return 400, {"error": str(error)}
    except Exception as error:
        log.exception("[Headroom] a request failed")
        return 500, {"error": f"The action failed with {type(error).__name__}: {error}"}

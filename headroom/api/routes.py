"""The HTTP routes: answers are made in threads, so the server's event loop never waits for them."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from aiohttp import web

from ..actions.ceiling import Limit
from ..actions.reserve import set_reserve
from ..base.refusals import NotKnown, Refused
from ..base.said import Said
from ..measure.snapshot import snapshot
from ..record.highest import HeldPeaks
from ..record.newest_runs import NO_RECORD
from ..record.recorder import Recorder
from .acting import as_nodes_do, offload_model, purge_models
from .answers import Answer, answered, as_json, body_of
from .bug_report import RUNS, bug_report
from .gate import Gate
from .memory_now import MemoryNow
from .metrics import Metrics
from .ready import readiness
from .requests import (
    MAX_BODY_BYTES,
    MAX_PROMPT_BYTES,
    estimate_request,
    expect_empty,
    free_mib_asked,
    into_gib_asked,
    limit_request,
    offload_request,
    purge_request,
    queue_request,
    rescue_request,
    reserve_request,
    runs_asked,
)

Handler = Callable[[web.Request], Awaitable[web.Response]]
Asked = TypeVar("Asked")
Done = TypeVar("Done")
READERS = 4


class LeftQueues(Protocol):
    """The prompts that ended servers left."""

    def left(self) -> dict[str, Any]: ...

    def queue_again(self) -> dict[str, Any]: ...

    def discard(self) -> dict[str, Any]: ...


def _handler(work: Callable[[web.Request], Awaitable[Answer]]) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return await answered(work(request))

    return handler


class Routes:
    """The handlers of our routes.

    `queue_lengths` returns how many prompts run and wait, `rescue(prompt_id)` queues one again,
    `advice(prompt_id, GiB)` says what to change in it, and `more_of(prompt_id)` returns what else
    belongs to its record. `estimate(prompt)` says whether it fits before it runs. `stuck()` says
    that the running prompt makes no progress.
    """

    def __init__(
        self, recorder: Recorder, gate: Gate, queue_lengths: Callable[[], tuple[int, int]],
        rescue: Callable[[str], Any], metrics: Metrics,
        advice: Callable[[str, float | None], list[dict[str, Any]]],
        more_of: Callable[[str], dict[str, Any]], peaks: HeldPeaks, queues: LeftQueues,
        limit: Limit, estimate: Callable[[dict[str, Any]], dict[str, Any]],
        stuck: Callable[[], Said | None] = lambda: None,
    ) -> None:
        self._recorder = recorder
        self._gate = gate
        self._queue_lengths = queue_lengths
        self._rescue = rescue
        self._metrics = metrics
        self._advice = advice
        self._more_of = more_of
        self._peaks = peaks
        self._queues = queues
        self._limit = limit
        self._estimate = estimate
        self._stuck = stuck
        self._memory_now = MemoryNow(recorder, queue_lengths, peaks, limit, stuck)
        # Own threads: a driver that hangs must not block the threads that ComfyUI needs.
        self._readers = ThreadPoolExecutor(READERS, "headroom answer")

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return (method, path, handler) of every route."""
        get, post = self._get, self._post
        return [
            ("GET", "/headroom/memory", get(lambda _: as_json(self._memory_now.as_json()))),
            ("GET", "/headroom/runs", get(self._runs)),
            ("GET", "/headroom/runs/{prompt_id}", get(self._one_run)),
            ("GET", "/headroom/runs/{prompt_id}/advice", get(self._advised)),
            ("GET", "/headroom/ready", get(self._ready)),
            ("GET", "/headroom/metrics", get(self._page)),
            ("GET", "/headroom/bug-report", get(self._bug_report)),
            ("GET", "/headroom/queue", get(lambda _: as_json(self._queues.left()))),
            ("GET", "/headroom/limit", get(lambda _: as_json(self._limit.as_json()))),
            ("POST", "/headroom/estimate", post(
                lambda body: as_json(self._estimate(estimate_request(body))), MAX_PROMPT_BYTES)),
            ("POST", "/headroom/purge", self._act(purge_request, purge_models)),
            ("POST", "/headroom/offload", self._act(offload_request, offload_model)),
            ("POST", "/headroom/rescue", post(
                lambda body: as_json(self._rescue(rescue_request(body))))),
            ("POST", "/headroom/reserve", post(
                lambda body: as_json({"reserve_mib": set_reserve(reserve_request(body))}))),
            ("POST", "/headroom/limit", _handler(self._limited)),
            ("POST", "/headroom/peaks", post(self._peaks_from_now)),
            ("POST", "/headroom/queue", post(self._decided)),
        ]

    # ---------------------------------------------------- how the work is done

    def _get(self, work: Callable[[web.Request], Answer]) -> Handler:
        """Return a handler that does `work` in a thread; there it also makes the body."""
        return _handler(lambda request: self._in_thread(partial(work, request)))

    def _post(self, work: Callable[[bytes], Answer], most_bytes: int = MAX_BODY_BYTES) -> Handler:
        """Return a handler that reads the request's body, and does `work` in a thread."""

        async def handled(request: web.Request) -> Answer:
            return await self._in_thread(partial(work, await body_of(request, most_bytes)))

        return _handler(handled)

    def _act(self, read: Callable[[bytes], Asked], do: Callable[[Asked], Any]) -> Handler:
        """Return a handler that reads a request first, and does it when nothing else runs."""

        async def handled(request: web.Request) -> Answer:
            asked = read(await body_of(request))
            return as_json(await self._gate.act(partial(as_nodes_do, do, asked)))

        return _handler(handled)

    async def _in_thread(self, work: Callable[[], Done]) -> Done:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _limited(self, request: web.Request) -> Answer:
        """Set the limit at once; free what is above it as soon as no prompt runs."""
        asked = limit_request(await body_of(request))
        await self._in_thread(partial(self._limit.set, asked))
        with suppress(Refused):
            await self._gate.act(partial(as_nodes_do, Limit.give_back, self._limit))
        return as_json(self._limit.as_json())

    # ---------------------------------------------------- in a thread

    def _runs(self, request: web.Request) -> Answer:
        found = self._recorder.runs(runs_asked(request.query))
        return as_json({"runs": [self._with_more(run) for run in found]})

    def _one_run(self, request: web.Request) -> Answer:
        prompt_id = request.match_info["prompt_id"]
        grows = self._memory_now.grows(prompt_id)  # first: who holds RAM goes into the record
        found = self._recorder.run(prompt_id)
        if found is None:
            raise NotKnown(NO_RECORD)
        return as_json({**self._with_more(found), "grows_over_runs": grows})

    def _with_more(self, run: dict[str, Any]) -> dict[str, Any]:
        return {**run, **self._more_of(run["prompt_id"])}

    def _advised(self, request: web.Request) -> Answer:
        into_gib = into_gib_asked(request.query)
        return as_json(self._advice(request.match_info["prompt_id"], into_gib))

    def _ready(self, request: web.Request) -> Answer:
        wanted = free_mib_asked(request.query)
        found = readiness(wanted, self._queue_lengths(), self._stuck())
        return as_json(found, 200 if found["ready"] else 503)

    def _page(self, _: web.Request) -> Answer:
        body, content_type = self._metrics.page(self._recorder.catch_up)
        return Answer(body, content_type=content_type)

    def _bug_report(self, _: web.Request) -> Answer:
        runs = map(self._with_more, self._recorder.runs(RUNS))
        return as_json(bug_report(self._memory_now.as_json(), runs))

    def _peaks_from_now(self, body: bytes) -> Answer:
        expect_empty(body)
        self._recorder.catch_up()
        self._peaks.reset()
        return as_json(self._peaks.as_json(snapshot(), self._recorder))

    def _decided(self, body: bytes) -> Answer:
        is_discarded = queue_request(body) == "discard"
        return as_json(self._queues.discard() if is_discarded else self._queues.queue_again())

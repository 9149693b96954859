"""The HTTP routes: answers are made in threads, so the server's event loop never waits for them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
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
from .ready import readiness
from .requests import (
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


class Page(Protocol):
    """The page for Prometheus."""

    def page(self, catch_up: Callable[[], None]) -> tuple[bytes, str]: ...


class LeftQueues(Protocol):
    """The prompts that ended servers left."""

    def left(self) -> dict[str, Any]: ...

    def queue_again(self) -> dict[str, Any]: ...

    def discard(self) -> dict[str, Any]: ...


class Routes:
    """The handlers of our routes.

    `queue_lengths` returns how many prompts run and wait, `rescue(prompt_id)` queues one again,
    `advice(prompt_id, GiB)` says what to change in it, and `more_of(prompt_id)` returns what else
    belongs to its record. `estimate(prompt)` says whether it fits before it runs. `stuck()` says
    that the running prompt makes no progress.
    """

    def __init__(
        self, recorder: Recorder, gate: Gate, queue_lengths: Callable[[], tuple[int, int]],
        rescue: Callable[[str], Any], metrics: Page,
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
        return [
            ("GET", "/headroom/memory", self.memory),
            ("GET", "/headroom/runs", self.runs),
            ("GET", "/headroom/runs/{prompt_id}", self.run),
            ("GET", "/headroom/runs/{prompt_id}/advice", self.advice),
            ("GET", "/headroom/ready", self.ready),
            ("GET", "/headroom/metrics", self.metrics),
            ("GET", "/headroom/bug-report", self.bug_report),
            ("GET", "/headroom/queue", self.queue),
            ("GET", "/headroom/limit", self.limit),
            ("POST", "/headroom/estimate", self.estimate),
            ("POST", "/headroom/purge", self.purge),
            ("POST", "/headroom/offload", self.offload),
            ("POST", "/headroom/rescue", self.rescue),
            ("POST", "/headroom/reserve", self.reserve),
            ("POST", "/headroom/limit", self.set_limit),
            ("POST", "/headroom/peaks", self.peaks),
            ("POST", "/headroom/queue", self.decide),
        ]

    async def memory(self, request: web.Request) -> web.Response:
        return await self._read(self._memory)

    async def runs(self, request: web.Request) -> web.Response:
        return await self._read(partial(self._runs, dict(request.query)))

    async def run(self, request: web.Request) -> web.Response:
        return await self._read(partial(self._one_run, request.match_info["prompt_id"]))

    async def advice(self, request: web.Request) -> web.Response:
        wanted, query = request.match_info["prompt_id"], dict(request.query)
        return await self._read(lambda: as_json(self._advice(wanted, into_gib_asked(query))))

    async def estimate(self, request: web.Request) -> web.Response:
        return await answered(self._estimated(request))

    async def ready(self, request: web.Request) -> web.Response:
        return await self._read(partial(self._ready, dict(request.query)))

    async def metrics(self, request: web.Request) -> web.Response:
        return await self._read(self._page)

    async def bug_report(self, request: web.Request) -> web.Response:
        return await self._read(self._bug_report)

    async def queue(self, request: web.Request) -> web.Response:
        return await self._read(lambda: as_json(self._queues.left()))

    async def limit(self, request: web.Request) -> web.Response:
        return await self._read(lambda: as_json(self._limit.as_json()))

    async def purge(self, request: web.Request) -> web.Response:
        return await answered(self._act(request, purge_request, purge_models))

    async def offload(self, request: web.Request) -> web.Response:
        return await answered(self._act(request, offload_request, offload_model))

    async def rescue(self, request: web.Request) -> web.Response:
        return await answered(self._rescued(request))

    async def reserve(self, request: web.Request) -> web.Response:
        return await answered(self._reserved(request))

    async def set_limit(self, request: web.Request) -> web.Response:
        return await answered(self._limited(request))

    async def peaks(self, request: web.Request) -> web.Response:
        return await answered(self._forget_peaks(request))

    async def decide(self, request: web.Request) -> web.Response:
        return await answered(self._decided(request))

    # ---------------------------------------------------- how the work is done

    async def _read(self, work: Callable[[], Answer]) -> web.Response:
        return await answered(self._in_thread(work))

    async def _in_thread(self, work: Callable[[], Done]) -> Done:
        """Do `work` in a thread; with a body, the thread also makes the body."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _act(
        self, request: web.Request, read: Callable[[bytes], Asked], do: Callable[[Asked], Any]
    ) -> Answer:
        """Read the request first, and do it when nothing else runs."""
        asked = read(await body_of(request))
        return as_json(await self._gate.act(partial(as_nodes_do, do, asked)))

    async def _rescued(self, request: web.Request) -> Answer:
        asked = rescue_request(await body_of(request))
        return await self._in_thread(lambda: as_json(self._rescue(asked)))

    async def _estimated(self, request: web.Request) -> Answer:
        body = await body_of(request, MAX_PROMPT_BYTES)
        return await self._in_thread(lambda: as_json(self._estimate(estimate_request(body))))

    async def _decided(self, request: web.Request) -> Answer:
        asked = queue_request(await body_of(request))
        do = self._queues.discard if asked == "discard" else self._queues.queue_again
        return await self._in_thread(lambda: as_json(do()))

    async def _reserved(self, request: web.Request) -> Answer:
        asked = reserve_request(await body_of(request))
        return await self._in_thread(lambda: as_json({"reserve_mib": set_reserve(asked)}))

    async def _limited(self, request: web.Request) -> Answer:
        """Set the limit at once; free what is above it as soon as no prompt runs."""
        asked = limit_request(await body_of(request))
        await self._in_thread(partial(self._limit.set, asked))
        with suppress(Refused):
            await self._gate.act(partial(as_nodes_do, Limit.give_back, self._limit))
        return as_json(self._limit.as_json())

    async def _forget_peaks(self, request: web.Request) -> Answer:
        expect_empty(await body_of(request))
        return await self._in_thread(self._peaks_from_now)

    # ---------------------------------------------------- in a thread

    def _memory(self) -> Answer:
        return as_json(self._memory_now.as_json())

    def _bug_report(self) -> Answer:
        runs = map(self._with_more, self._recorder.runs(RUNS))
        return as_json(bug_report(self._memory_now.as_json(), runs))

    def _peaks_from_now(self) -> Answer:
        self._recorder.catch_up()
        self._peaks.reset()
        return as_json(self._peaks.as_json(snapshot(), self._recorder))

    def _runs(self, query: Mapping[str, str]) -> Answer:
        return as_json({"runs": [self._with_more(run) for run in self._recorder.runs(
            runs_asked(query))]})

    def _one_run(self, prompt_id: str) -> Answer:
        grows = self._memory_now.grows(prompt_id)  # first: who holds RAM goes into the record
        found = self._recorder.run(prompt_id)
        if found is None:
            raise NotKnown(NO_RECORD)
        return as_json({**self._with_more(found), "grows_over_runs": grows})

    def _with_more(self, run: dict[str, Any]) -> dict[str, Any]:
        return {**run, **self._more_of(run["prompt_id"])}

    def _ready(self, query: Mapping[str, str]) -> Answer:
        found = readiness(free_mib_asked(query), self._queue_lengths(), self._stuck())
        return as_json(found.as_json(), 200 if found.is_ready else 503)

    def _page(self) -> Answer:
        body, content_type = self._metrics.page(self._recorder.catch_up)
        return Answer(body, content_type=content_type)

"""The HTTP routes: answers are made in threads, so the server's event loop never waits for them."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import torch
from aiohttp.web import Request, Response, json_response

from ..actions.ceiling import Limit
from ..actions.offload import offload
from ..actions.purge import free_bytes, purge
from ..actions.reserve import set_reserve
from ..base.device import in_mib
from ..base.said import NotKnown, Refused, Said
from ..measure.snapshot import snapshot
from ..models.loaded import patchers_named
from ..record.highest import KeptPeaks
from ..record.newest import NO_RECORD
from ..record.recorder import Recorder
from . import requests
from .answers import answered, body_of
from .bug_report import RUNS, bug_report
from .gate import Gate
from .memory_now import MemoryNow
from .metrics import Metrics
from .ready import readiness
from .requests import MAX_BODY_BYTES, MAX_PROMPT_BYTES

Handler = Callable[[Request], Awaitable[Response]]
Done = TypeVar("Done")
READERS = 4


class LeftQueues(Protocol):
    """The prompts of servers that have ended (rescue/ is not imported: it is on the same floor)."""

    def left(self) -> dict[str, Any]: ...
    def queue_again(self) -> dict[str, Any]: ...
    def discard(self) -> dict[str, Any]: ...


def _handler(work: Callable[[Request], Awaitable[Response]]) -> Handler:
    async def handler(request: Request) -> Response:
        return await answered(work(request))

    return handler


@dataclass(eq=False)
class Routes:
    """The handlers of our routes."""

    recorder: Recorder
    gate: Gate
    queue_lengths: Callable[[], tuple[int, int]]  # prompts that run, and that wait
    rescue: Callable[[str], Any]  # queues a prompt again
    metrics: Metrics
    advice: Callable[[str, float | None], list[dict[str, Any]]]  # on a prompt; GiB to fit into
    more_of: Callable[[str], dict[str, Any]]  # what else belongs to a record
    peaks: KeptPeaks
    queues: LeftQueues
    limit: Limit
    estimate: Callable[[dict[str, Any]], dict[str, Any]]  # whether a prompt fits
    stuck: Callable[[], Said | None] = lambda: None  # the running prompt makes no progress

    def __post_init__(self) -> None:
        self._memory_now = MemoryNow(
            self.recorder, self.queue_lengths, self.peaks, self.limit, self.stuck)
        # Own threads: a driver that hangs must not block the threads that ComfyUI needs.
        self._readers = ThreadPoolExecutor(READERS, "headroom answer")

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return (method, path, handler) of every route."""
        get, post = self._get, self._post
        return [
            ("GET", "/headroom/memory", get(lambda _: json_response(self._memory_now.as_json()))),
            ("GET", "/headroom/runs", get(self._runs)),
            ("GET", "/headroom/runs/{prompt_id}", get(self._one_run)),
            ("GET", "/headroom/runs/{prompt_id}/advice", get(self._advised)),
            ("GET", "/headroom/ready", get(self._ready)),
            ("GET", "/headroom/metrics", get(self._page)),
            ("GET", "/headroom/bug-report", get(self._bug_report)),
            ("GET", "/headroom/queue", get(lambda _: json_response(self.queues.left()))),
            ("GET", "/headroom/limit", get(lambda _: json_response(self.limit.as_json()))),
            ("POST", "/headroom/estimate", post(self._estimated, MAX_PROMPT_BYTES)),
            ("POST", "/headroom/purge", self._act(requests.purge_request, _purge)),
            ("POST", "/headroom/offload", self._act(requests.offload_request, _offload)),
            ("POST", "/headroom/rescue", post(
                lambda body: json_response(self.rescue(requests.rescue_request(body))))),
            ("POST", "/headroom/reserve", post(self._reserved)),
            ("POST", "/headroom/limit", _handler(self._limited)),
            ("POST", "/headroom/peaks", post(self._peaks_from_now)),
            ("POST", "/headroom/queue", post(self._decided)),
        ]

    # ---------------------------------------------------- how the work is done

    def _get(self, work: Callable[[Request], Response]) -> Handler:
        """Return a handler that does `work` in a thread; there it also makes the body."""
        return _handler(lambda request: self._in_thread(partial(work, request)))

    def _post(self, work: Callable[[bytes], Response], most_bytes: int = MAX_BODY_BYTES) -> Handler:
        """Return a handler that reads the request's body, and does `work` in a thread."""

        async def handled(request: Request) -> Response:
            return await self._in_thread(partial(work, await body_of(request, most_bytes)))

        return _handler(handled)

    def _act(self, read: Callable[[bytes], dict[str, Any]], do: Callable[..., Any]) -> Handler:
        """Return a handler that reads a request first, and does it when nothing else runs."""

        async def handled(request: Request) -> Response:
            asked = read(await body_of(request))
            return json_response(await self.gate.act(partial(_as_nodes_do, partial(do, **asked))))

        return _handler(handled)

    async def _in_thread(self, work: Callable[[], Done]) -> Done:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _limited(self, request: Request) -> Response:
        """Set the limit at once; free what is above it as soon as no prompt runs."""
        asked = requests.limit_request(await body_of(request))
        await self._in_thread(partial(self.limit.set, asked))
        with suppress(Refused):
            await self.gate.act(partial(_as_nodes_do, self.limit.unload_excess))
        return json_response(self.limit.as_json())

    # ---------------------------------------------------- in a thread

    def _runs(self, request: Request) -> Response:
        found = self.recorder.runs(*requests.runs_asked(request.query))
        return json_response({"runs": [self._with_more(run) for run in found]})

    def _one_run(self, request: Request) -> Response:
        prompt_id = request.match_info["prompt_id"]
        grows = self._memory_now.grows(prompt_id)  # first: who holds RAM goes into the record
        found = self.recorder.run(prompt_id)
        if found is None:
            raise NotKnown(NO_RECORD)
        return json_response({**self._with_more(found), "grows_over_runs": grows})

    def _with_more(self, run: dict[str, Any]) -> dict[str, Any]:
        return {**run, **self.more_of(run["prompt_id"])}

    def _advised(self, request: Request) -> Response:
        into_gib = requests.into_gib_asked(request.query)
        return json_response(self.advice(request.match_info["prompt_id"], into_gib))

    def _ready(self, request: Request) -> Response:
        wanted = requests.free_mib_asked(request.query)
        found = readiness(wanted, self.queue_lengths(), self.stuck())
        return json_response(found, status=200 if found["ready"] else 503)

    def _page(self, _: Request) -> Response:
        body, content_type = self.metrics.page(self.recorder.catch_up)
        return Response(body=body, headers={"Content-Type": content_type})

    def _bug_report(self, _: Request) -> Response:
        runs = map(self._with_more, self.recorder.runs(RUNS))
        return json_response(bug_report(self._memory_now.as_json(), runs))

    def _estimated(self, body: bytes) -> Response:
        return json_response(self.estimate(requests.estimate_request(body)))

    def _reserved(self, body: bytes) -> Response:
        return json_response({"reserve_mib": set_reserve(requests.reserve_request(body))})

    def _peaks_from_now(self, body: bytes) -> Response:
        requests.expect_empty(body)
        self.recorder.catch_up()
        self.peaks.reset()
        return json_response(self.peaks.as_json(snapshot(), self.recorder))

    def _decided(self, body: bytes) -> Response:
        is_discarded = requests.queue_request(body) == "discard"
        return json_response(self.queues.discard() if is_discarded else self.queues.queue_again())


def _as_nodes_do(do: Callable[[], Done]) -> Done:
    """Handle weights in inference mode, as nodes do."""
    with torch.inference_mode():
        return do()


def _purge(keep: list[str], free_mib: int | None, **asked: Any) -> dict[str, object]:
    report = purge(keep=patchers_named(keep) or None, free_mib=free_mib, **asked)
    reached = {} if free_mib is None else {"reached_free_mib": in_mib(free_bytes())}
    return {**report.as_json(), **reached}


def _offload(value: str, **asked: Any) -> dict[str, object]:
    return offload(patchers_named([value]), **asked).as_json()

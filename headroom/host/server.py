"""The host adapter to ComfyUI's server: its queue, its event channel and its routes."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any

from aiohttp import web
from server import PromptServer

from .types import Outcome, messages_of
from .user_settings import settings_of

log = logging.getLogger("headroom")

Handler = Callable[[Any], Awaitable[Any]]

POLL_SECONDS = 0.002
_QUEUE, _JOBS = "/queue", "/jobs/cancel"
_OF_THE_QUEUE = ("/prompt", _QUEUE, "/jobs", "/headroom/")

_posting: ContextVar[web.Request | None] = ContextVar("headroom_posting", default=None)


def has_server() -> bool:
    return getattr(PromptServer, "instance", None) is not None


def add_route(method: str, path: str, handler: Handler) -> None:
    """Add a route; ComfyUI serves it under /api too, behind its own checks of the origin."""
    PromptServer.instance.routes.route(method, path)(handler)


def has_route(path: str) -> bool:
    return any(getattr(route, "path", None) == path for route in PromptServer.instance.routes)


def before_first_request(call: Callable[[], None]) -> None:
    """Call `call` once, after all packs are imported and before the first request; not later.

    Its error is logged: it would end ComfyUI, which is about to serve.
    """

    async def tell(_app: web.Application) -> None:
        _logging_errors(call)

    app = PromptServer.instance.app
    if not app.frozen:
        app.on_startup.append(tell)


def delay_free(turn: AbstractAsyncContextManager[None]) -> None:
    """Let POST /free be handled inside of `turn`, without blocking the server.

    The thread that runs prompts does what it asks for, at once if it is idle. Without this it could
    unload models at the same time as an action of ours.
    """
    async def delayed(request: web.Request, handler: Handler) -> Any:
        if request.method == "POST" and request.path in ("/free", "/api/free"):
            async with turn:
                return await handler(request)
        return await handler(request)

    _add_middleware(delayed)


def after_each_post(call: Callable[[], None]) -> None:
    """Call `call` in its own thread after each POST; answers about the queue wait for that."""
    thread = ThreadPoolExecutor(1, "headroom after posts")

    async def tell(request: web.Request, handler: Handler) -> Any:
        try:
            return await handler(request)
        finally:
            if request.method == "POST":
                loop = asyncio.get_running_loop()
                done = loop.run_in_executor(thread, _logging_errors, call)
                if request.path.removeprefix("/api").startswith(_OF_THE_QUEUE):
                    await done

    _add_middleware(tell)


def _logging_errors(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        log.exception("[Headroom] an error of Headroom itself; the server continues")


def on_queue_cleared(call: Callable[[], None]) -> None:
    """Call `call` when somebody empties the queue: ComfyUI keeps no record of that."""

    async def watch(request: web.Request, handler: Handler) -> Any:
        if request.method == "POST" and request.path.removeprefix("/api") in (_QUEUE, _JOBS):
            try:
                body = await request.json()  # aiohttp keeps it for the handler
            except ValueError:
                body = None
            if empties_queue(request.path, body, [str(item[1]) for item in queue_items()[1]]):
                call()
        return await handler(request)

    _add_middleware(watch)


def empties_queue(path: str, body: Any, waiting: Collection[str]) -> bool:
    """Return whether a POST of `body` to `path` removes all prompts that wait.

    Newer ComfyUIs may get the ids of all its jobs in the place of the command to clear it. A job
    that is cancelled by its own id (`/jobs/{id}/cancel`) leaves the others.
    """
    path = path.removeprefix("/api")
    if not isinstance(body, dict) or path not in (_QUEUE, _JOBS):
        return False
    ids = body.get("job_ids")
    if path == _JOBS:
        return isinstance(ids, list) and bool(waiting) and all(one in ids for one in waiting)
    return bool(body.get("clear"))


def before_prompt_is_validated(change: Callable[[Any, dict[str, Any]], Any]) -> None:
    """Let `change(json, browser settings)` return the posted prompt that ComfyUI will get.

    The settings are those of the user who posts it, as the browser stores them on the server.
    `change` is called after the handlers of all other packs.
    """

    async def remember(request: web.Request, handler: Handler) -> Any:
        if request.method == "POST" and request.path.removeprefix("/api") == "/prompt":
            _posting.set(request)
        return await handler(request)

    _add_middleware(remember)
    before_first_request(lambda: PromptServer.instance.add_on_prompt_handler(
        lambda data: change(data, settings_of(_posting.get()))
    ))


def _add_middleware(work: Callable[[web.Request, Handler], Awaitable[Any]]) -> None:
    app = PromptServer.instance.app
    if not app.frozen:
        app.middlewares.append(web.middleware(work))


def send_event(event: str, data: dict[str, Any], ended: str | None = None) -> None:
    """Send an event to the browser that queued the running prompt; to all if none did.

    `ended`: the id of another prompt, which is in the history already.
    """
    client = PromptServer.instance.client_id
    if ended is not None:
        item = (history_entry(ended) or {}).get("prompt") or (None,) * 4
        client = item[3].get("client_id") if isinstance(item[3], dict) else None
    PromptServer.instance.send_sync(event, data, client if isinstance(client, str) else None)


def prompts_waiting() -> bool:
    """Return whether a prompt runs or is queued."""
    return bool(PromptServer.instance.prompt_queue.get_tasks_remaining() > 0)


def event_loop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = PromptServer.instance.loop
    return loop


def queue_items() -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the queue's entries of the prompts that run, and of those that wait.

    An entry is (number, id, prompt, extra data, outputs, …), not a copy: only read it.
    """
    running, waiting = PromptServer.instance.prompt_queue.get_current_queue_volatile()
    return list(running), list(waiting)


def queue_lengths() -> tuple[int, int]:
    """Return how many prompts run and how many wait."""
    running, waiting = queue_items()
    return len(running), len(waiting)


def prompts_in_queue() -> list[dict[str, Any]]:
    """Return the prompts that run and wait, in API format, not copies: only read them."""
    return [item[2] for part in queue_items() for item in part]


def is_running(prompt_id: str) -> bool:
    return any(str(item[1]) == prompt_id for item in queue_items()[0])


def history_entry(prompt_id: str) -> dict[str, Any] | None:
    """Return ComfyUI's history entry of a prompt, not a copy: only read it."""
    found = PromptServer.instance.prompt_queue.get_history(prompt_id=prompt_id, map_function=dict)
    entry: dict[str, Any] | None = found.get(prompt_id)
    return entry


def outcome_of(prompt_id: str) -> Outcome | None:
    """Return how a prompt ended by ComfyUI's history; None while it runs, or if it is unknown."""
    entry = None if is_running(prompt_id) else history_entry(prompt_id)
    return None if entry is None else _outcome(entry.get("status") or {})


def _outcome(status: dict[str, Any]) -> Outcome:
    messages = messages_of(status)
    cached = tuple(str(node) for node in messages.get("execution_cached", {}).get("nodes", []))
    if told := messages.get("execution_interrupted"):
        return Outcome("interrupted", str(told.get("node_id")), cached)
    if told := messages.get("execution_error"):
        raised = str(told.get("exception_type")), str(told.get("exception_message"))
        return Outcome("error", str(told.get("node_id")), cached, raised)
    return Outcome("success" if status.get("status_str") == "success" else "error", None, cached)


def worker_is_idle(timeout: float = 2.0) -> bool:
    """Return whether the thread that runs prompts is idle, and not busy between two prompts.

    After a prompt, and when POST /free asks for it, that thread itself unloads models. It reads
    flags only while it waits for work, all at once, and then acts on them. So we set a flag without
    a meaning: when it is taken a second time, the thread has done what it had read before.
    """
    deadline = time.monotonic() + timeout
    return _takes_flag(deadline) and _takes_flag(deadline)


def _takes_flag(deadline: float) -> bool:
    queue, pause = PromptServer.instance.prompt_queue, threading.Event()
    while queue.get_tasks_remaining() == 0 and time.monotonic() < deadline:
        # Set it again each time: a flag set before the thread waits for work does not wake it.
        queue.set_flag("headroom_listening", False)
        pause.wait(POLL_SECONDS)
        if "headroom_listening" not in queue.get_flags(reset=False):
            return True
    return False

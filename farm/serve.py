"""A door on an address, in this process or on Ray Serve: until it is stopped, or for a batch."""

import contextlib
import ipaddress
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import uvicorn

from .guard import App
from .plan import Plan
from .process import bound, free_port
from .store import Store
from .words import FarmError

LOG = logging.getLogger("farm")
MESSAGE_BYTES = 1 << 20  # a client's message over the WebSocket
END_SECONDS = 3
OPEN_SECONDS = 5.0
HERE = "127.0.0.1"
BATCH_PORT = 8289  # on a Ray that runs on after a batch: Serve keeps its first port there


def serve(plan: Plan, host: str, port: int, ray_address: str = "") -> None:
    """Serve until the process is told to end; FarmError where the address cannot be opened.

    With a `ray_address`, or where servers that are started want GPUs, it is Ray Serve that does.
    """
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    if not plan.token and not _is_loopback(host):
        LOG.warning("Everybody who reaches %s may use these servers; --token asks for one.", host)
    if ray_address or plan.wants_ray:
        with _deployed(plan, host, port, ray_address or "local"):
            LOG.info("The farm is at http://%s:%s", host, port)
            threading.Event().wait()  # until a signal ends this process
    with bound(host, port) as listening, _app(plan, LOG.info) as app:
        LOG.info("The farm is at http://%s:%s", host, listening.getsockname()[1])
        _server(app).run([listening])


@contextlib.contextmanager
def opened(plan: Plan, ray_address: str = "") -> Iterator[tuple[str, str]]:
    """Have a door for this process alone; yields its URL and its token."""
    plan = replace(plan, token=secrets.token_hex())
    if ray_address or plan.wants_ray:
        address = ray_address or "local"
        port = free_port() if address == "local" else BATCH_PORT
        with _deployed(plan, HERE, port, address):
            yield f"http://{HERE}:{port}", plan.token
        return
    with bound(HERE, 0) as listening, _app(plan, LOG.debug) as app:  # the batch logs it itself
        server = _server(app)
        thread = threading.Thread(target=server.run, args=([listening],), name="farm door")
        thread.start()
        try:  # requests wait at the socket until there is an answer
            yield f"http://{HERE}:{listening.getsockname()[1]}", plan.token
        finally:
            server.should_exit = True
            thread.join()


@contextlib.contextmanager
def _deployed(plan: Plan, host: str, port: int, address: str) -> Iterator[None]:
    from .replicas import deployed  # Ray takes seconds to import

    with deployed(plan, host, port, address):
        expect_open(host, port)
        yield


@contextlib.contextmanager
def _app(plan: Plan, says: Callable[[str], None]) -> Iterator[App]:
    """Open the store before anything else: its refusals are sentences for the user."""
    with contextlib.closing(Store(plan.results)) as store:
        yield plan.app(Plan.worker, says, store)


def _server(app: App) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(
        app, log_level="warning", access_log=False, ws_max_size=MESSAGE_BYTES,
        timeout_graceful_shutdown=END_SECONDS, lifespan="on", server_header=False,
    ))


def expect_open(host: str, port: int) -> None:
    """FarmError where Ray Serve is elsewhere: it keeps its first port, on the head of its Ray."""
    try:
        socket.create_connection((host, port), OPEN_SECONDS).close()
    except OSError as error:
        raise FarmError(
            f"Ray Serve does not listen on {host}:{port}: it was started with another port, or "
            "Ray's head is another machine; run `serve shutdown` there, or start this on the head."
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

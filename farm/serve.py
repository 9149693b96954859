"""A door on an address, in this process or on Ray Serve: until it is stopped, or for a batch."""

import contextlib
import logging
import secrets
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import uvicorn

from .access import App
from .process import bound, free_port
from .settings import Settings
from .words import FarmError

LOG = logging.getLogger("farm")
MESSAGE_BYTES = 1 << 20  # a client's message over the WebSocket
END_SECONDS = 3
OPEN_SECONDS = 5.0
HERE = "127.0.0.1"
LOOPBACK = (HERE, "::1", "localhost")
BATCH_PORT = 8289  # on a Ray that runs on after a batch: Serve keeps its first port there


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until the process is told to end; FarmError where the address cannot be opened."""
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    if not settings.token and host not in LOOPBACK:
        LOG.warning("Everybody who reaches %s may use these servers; --token asks for one.", host)
    if settings.ray_address:
        with _deployed(settings, host, port):
            LOG.info("The farm is at http://%s:%s", host, port)
            threading.Event().wait()  # until a signal ends this process
    with bound(host, port) as listening:
        server = _server(settings.app(Settings.worker, LOG.info))
        LOG.info("The farm is at http://%s:%s", host, listening.getsockname()[1])
        server.run([listening])


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[tuple[str, str]]:
    """Have a door for this process alone; yields its URL and its token."""
    settings = replace(settings, token=secrets.token_hex())
    if settings.ray_address:
        port = free_port() if settings.ray_address == "local" else BATCH_PORT
        with _deployed(settings, HERE, port):
            yield f"http://{HERE}:{port}", settings.token
        return
    with bound(HERE, 0) as listening:
        server = _server(settings.app(Settings.worker, LOG.debug))  # the batch says it itself
        thread = threading.Thread(target=server.run, args=([listening],), name="farm door")
        thread.start()
        try:  # requests wait at the socket until there is an answer
            yield f"http://{HERE}:{listening.getsockname()[1]}", settings.token
        finally:
            server.should_exit = True
            thread.join()


@contextlib.contextmanager
def _deployed(settings: Settings, host: str, port: int) -> Iterator[None]:
    from .replicas import deployed  # Ray takes seconds to import

    with deployed(settings, host, port):
        expect_open(host, port)
        yield


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

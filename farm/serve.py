"""`farm serve`: the door on an address, in this process."""

import contextlib
import ipaddress
import logging
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import uvicorn

from .app import application
from .clients import Clients
from .door import Door
from .servers import ServerSpec
from .store import Store
from .threads import Threads
from .words import FarmError
from .worker import Patience

LOG = logging.getLogger("farm")
MESSAGE_BYTES = 1 << 20  # a client's message over the WebSocket
END_SECONDS = 3


def serve(
    specs: Sequence[ServerSpec], patience: Patience, results: Path,
    after_oom: Literal["rescue", "move"], host: str, port: int, token: str, most_bytes: int,
) -> None:
    """Serve until the process is told to end; FarmError where the address cannot be had."""
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    with _bound(host, port) as bound, contextlib.closing(Store(results)) as store:
        address = f"http://{host}:{bound.getsockname()[1]}"
        if not token and not _is_loopback(host):
            LOG.warning("Everybody who reaches %s may use these servers; --token asks for one.",
                        address)

        def make() -> Door:
            names = [spec.name for spec in specs]
            return Door(store, names, Threads(specs, patience), Clients(), LOG.info, after_oom)

        LOG.info("The farm is at %s", address)
        uvicorn.Server(uvicorn.Config(
            application(make, token, most_bytes), log_level="warning", access_log=False,
            ws_max_size=MESSAGE_BYTES, timeout_graceful_shutdown=END_SECONDS, lifespan="on",
            server_header=False,
        )).run([bound])


@contextlib.contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise FarmError(f"{host}:{port} cannot be had: {error.strerror or error}.") from error
    with bound:
        yield bound


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

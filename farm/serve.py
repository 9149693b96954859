"""`farm serve`: the door on an address, in this process or on Ray Serve."""

import contextlib
import ipaddress
import logging
import socket
import threading
from collections.abc import Iterator

import uvicorn

from .plan import Plan
from .threads import Threads
from .words import FarmError

LOG = logging.getLogger("farm")
MESSAGE_BYTES = 1 << 20  # a client's message over the WebSocket
END_SECONDS = 3


def serve(plan: Plan, host: str, port: int, ray_address: str = "") -> None:
    """Serve until the process is told to end; FarmError where the address cannot be had.

    With a `ray_address`, or where servers that are started want GPUs, it is Ray Serve that does.
    """
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    if not plan.token and not _is_loopback(host):
        LOG.warning("Everybody who reaches %s may use these servers; --token asks for one.", host)
    wants_gpus = any(spec.is_started and (spec.gpus or spec.resources) for spec in plan.specs)
    if ray_address or wants_gpus:
        from .replicas import deployed  # Ray takes seconds to import

        with deployed(plan, host, port, ray_address or "local"):
            LOG.info("The farm is at http://%s:%s", host, port)
            threading.Event().wait()  # until a signal ends this process
    with _bound(host, port) as bound:
        LOG.info("The farm is at http://%s:%s", host, bound.getsockname()[1])
        app = plan.app(lambda plan: Threads(plan.specs, plan.patience, plan.errors), LOG.info)
        uvicorn.Server(uvicorn.Config(
            app, log_level="warning", access_log=False, ws_max_size=MESSAGE_BYTES,
            timeout_graceful_shutdown=END_SECONDS, lifespan="on", server_header=False,
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

"""The door on Ray Serve: its ingress, and a replica for each server that the farm starts.

Serve restarts what dies: the door, which goes on from its store, and a server's replica, on a
machine that has its GPUs. Which server gets which prompt stays the door's own choice: a router of
Serve chooses when a request comes, a farm when a server has room (see `docs/farm.md`).
"""

import contextlib
import logging
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ray
import ray.exceptions
import ray.serve.exceptions
from ray import serve

from .errors import Errors
from .process import bound
from .servers import ServerSpec
from .settings import Settings
from .words import Facts, FarmError, Order, Outcome, plain
from .worker import Patience, ServerFailed, Worker

APP, DOOR = "farm", "door"
LOG = logging.getLogger("ray.serve")
LOST = (ray.exceptions.RayError, serve.exceptions.RayServeException)
LOGS = Path(tempfile.gettempdir(), "headroom-farm")  # on whatever machine
SLOW = (TimeoutError, *LOST)  # how Serve says that something took too long to start
LOOK_BACK_SECONDS = 2.0  # over which Serve averages what is asked of a server that may sleep
ALONE = 1_000  # requests at once, streams and WebSockets among them, that a door takes


class Replica(Worker):
    """One server that the farm starts, on the machine that Serve chose."""

    def __init__(self, spec: ServerSpec, patience: Patience, errors: Errors) -> None:
        super().__init__(spec, patience, errors, LOGS, ray.util.get_node_ip_address())
        self._not_started: ServerFailed | None = None

    async def start(self) -> Facts:
        try:
            found = await super().start()
        except ServerFailed as error:
            self._not_started = error
            raise
        self._not_started = None
        return found

    def check_health(self) -> None:
        """Have Serve replace this replica, perhaps on another machine, after starts that failed."""
        if self._not_started:
            raise self._not_started

    async def look(self) -> None:
        """Look at once whether the prompt has ended."""
        self.wake()

    def __del__(self) -> None:
        self.stop()


class Remote:
    """A server's replica, as its door sees it."""

    def __init__(self, name: str) -> None:
        self._replica = serve.get_deployment_handle(name_of(name), APP)

    async def start(self) -> Facts:
        try:
            found: Facts = await self._replica.start.remote()
        except LOST as error:
            raise ServerFailed(_first_line(error)) from error
        return found

    async def run(self, order: Order) -> Outcome:
        try:
            found: Outcome = await self._replica.run.remote(order)
        except LOST as error:
            return Outcome("lost", _first_line(error))
        return found

    def wake(self) -> None:
        self._replica.look.remote()

    async def close(self) -> None:
        """Leave the server; Serve ends the replica with the application."""


def name_of(server: str) -> str:
    return f"server-{plain(server).replace('.', '_')}"


@contextlib.contextmanager
def deployed(settings: Settings, host: str, port: int) -> Iterator[None]:
    """Be served on the Ray cluster of the settings, or with a Ray of its own where it is "local".

    FarmError where Ray or the address is not there, or a server finds no machine.
    """
    address, ends = settings.ray_address, signal.getsignal(signal.SIGTERM)  # Ray puts its own there
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Serve ends a proxy that is not ready after three such times; its own 15 s are few.
    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "20")
    package = str(Path(__file__).resolve().parent)
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {
        "runtime_env": {"py_modules": [package]}}
    try:
        ray.init(address, log_to_driver=False, logging_level="error", **options)
    except Exception as error:  # of many kinds; of none of its own where its node starts slowly
        if address == "local":
            raise _not_started("Ray was to start on this machine", error) from error
        raise FarmError(f"No connection to Ray at {address}: {_first_line(error)}.") from error
    here = f"node:{ray.util.get_node_ip_address()}"  # the store is a file of this machine
    _expect_room(settings.specs)
    if not serve.status().proxies:  # else it is Serve that listens there
        bound(host, port).close()
    try:
        serve.start(proxy_location="HeadOnly", http_options={"host": host, "port": port})
    except SLOW as error:
        ray.shutdown()
        raise _not_started("Ray Serve was to start", error) from error
    servers = [
        serve.deployment(Replica, name=name_of(spec.name)).options(
            max_ongoing_requests=10, **_how_many(spec), ray_actor_options={
                "num_cpus": 0, "num_gpus": spec.gpus, "resources": spec.resources},
        ).bind(spec, settings.patience, settings.errors)
        for spec in settings.specs if spec.is_started
    ]
    entrance = serve.ingress(lambda: settings.app(_work, LOG.info))()  # made in the replica
    door = serve.deployment(entrance, name=DOOR).options(
        num_replicas=1, max_ongoing_requests=ALONE,
        ray_actor_options={"num_cpus": 0, "resources": {here: 0.001}})
    try:
        try:
            serve.run(door.bind(*servers), name=APP, route_prefix="/")
        except RuntimeError as error:
            raise FarmError(f"Ray Serve cannot open the farm: {_first_line(error)}") from error
        except SLOW as error:
            raise _not_started("Ray Serve was to open the farm", error) from error
        signal.signal(signal.SIGTERM, ends)
        yield
    finally:
        serve.delete(APP)
        if not serve.status().applications:
            serve.shutdown()  # so that the next farm there may have another port
        ray.shutdown()


def _work(settings: Settings, spec: ServerSpec) -> Remote | Worker:
    return Remote(spec.name) if spec.is_started else settings.worker(spec)


def _how_many(spec: ServerSpec) -> dict[str, Any]:
    """One replica; Serve ends it where nothing was asked of it for long, until something is."""
    if not spec.idle_seconds:
        return {"num_replicas": 1}
    return {"autoscaling_config": {
        "min_replicas": 0, "max_replicas": 1, "upscale_delay_s": 0.0,
        "downscale_delay_s": spec.idle_seconds, "look_back_period_s": LOOK_BACK_SECONDS}}


def _expect_room(specs: Sequence[ServerSpec]) -> None:
    """A replica that no machine has room for would wait for ever; one that sleeps may wait."""
    there = ray.cluster_resources()
    wanted: dict[str, float] = {}
    for spec in specs:
        if spec.idle_seconds:
            continue
        for name, amount in {**spec.resources, "GPU": spec.gpus}.items():
            wanted[name] = wanted.get(name, 0.0) + amount
    for name, amount in wanted.items():
        if amount > there.get(name, 0.0) + 1e-6:
            ray.shutdown()
            raise FarmError(
                f"The servers want {amount:g} {name}, but Ray has {there.get(name, 0.0):g}; "
                "change `gpus`, `resources` or `count`, or start Ray on more machines.")


def _not_started(what: str, error: Exception) -> FarmError:
    return FarmError(f"{what}, but said: {_first_line(error)}; give the same command again when "
                     "the machine has less to do, or start Ray first (`ray start --head`) and add "
                     "`--ray auto`.")


def _first_line(error: Exception) -> str:
    """What an error says first; of one that came in a replica, not Ray's traceback."""
    error = getattr(error, "cause", None) or error
    return str(error).strip().split("\n")[0] or type(error).__name__

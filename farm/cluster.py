"""Ray: one actor a server, each given one call at a time. The only file that imports it."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import known_errors
from .servers import ServerSpec
from .words import FarmError, Order
from .worker import Patience, Worker

PACKAGE = Path(__file__).resolve().parent
STOP_SECONDS = 10.0
STORE_BYTES = 256 << 20  # results travel through files where there is one machine
# `run` must not keep `stop` waiting.
CALLS_AT_ONCE = 2


class ActorLost(RuntimeError):
    """The actor ended with its process or its machine; Ray makes a new one."""


class Cluster:
    """The servers' actors. `address` is a running Ray cluster; without it Ray starts here."""

    def __init__(
        self, specs: Sequence[ServerSpec], patience: Patience, results: Path, token: str,
        address: str | None = None, dashboard: bool = False,
    ) -> None:
        self._ray = _ray()
        self._calls: dict[Any, str] = {}  # what is under way → server
        self._connect(specs, address, dashboard)
        actor, errors = self._ray.remote(Worker), known_errors()
        self._actors = {
            spec.name: actor.options(
                num_cpus=0, num_gpus=spec.gpus if spec.is_started else 0,
                resources=spec.resources or None, max_restarts=-1, max_task_retries=0,
                max_concurrency=CALLS_AT_ONCE, scheduling_strategy="SPREAD",
            ).remote(spec, patience, str(results), token, errors)
            for spec in specs
        }

    def _connect(
        self, specs: Sequence[ServerSpec], address: str | None, dashboard: bool
    ) -> None:
        # Nothing of a farm is reported to anybody.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:
            # Without "local" it would join whatever Ray was started last on this machine.
            options: dict[str, Any] = {"address": "local", "include_dashboard": dashboard,
                                       "object_store_memory": STORE_BYTES}
        else:
            options = {"address": address, "runtime_env": {"py_modules": [str(PACKAGE)]}}
        try:
            self._ray.init(log_to_driver=False, logging_level="error", **options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"to the Ray cluster at {address}" if address else "to a Ray of its own"
            first_line = str(error).strip().split("\n")[0]
            raise FarmError(f"No connection {where}: {first_line}.") from error
        self._expect_room(specs)

    def _expect_room(self, specs: Sequence[ServerSpec]) -> None:
        """An actor that no machine has room for would wait for ever."""
        there = self._ray.cluster_resources()
        wanted: dict[str, float] = {}
        for spec in specs:
            gpus = {"GPU": spec.gpus} if spec.is_started else {}
            for name, amount in {**gpus, **spec.resources}.items():
                wanted[name] = wanted.get(name, 0.0) + amount
        for name, amount in wanted.items():
            if amount > there.get(name, 0.0) + 1e-6:
                self._ray.shutdown()
                raise FarmError(
                    f"The servers want {amount:g} {name}, but Ray has {there.get(name, 0.0):g}; "
                    "change `gpus`, `resources` or `count`, or start Ray on more machines."
                )

    # ---------------------------------------------------- calls

    def start(self, server: str) -> None:
        """Begin to start or adopt a server; `wait` brings its Facts, or an error."""
        self._calls[self._actors[server].start.remote()] = server

    def run(self, server: str, order: Order) -> None:
        """Begin a prompt; `wait` brings its Outcome, or ActorLost."""
        self._calls[self._actors[server].run.remote(order)] = server

    def wait(self, seconds: float) -> list[tuple[str, Any]]:
        """Return (server, result or error) of every call that has ended, after `seconds` none."""
        if not self._calls:
            time.sleep(seconds)
            return []
        calls = list(self._calls)
        ended, _ = self._ray.wait(calls, timeout=seconds, fetch_local=False)
        if ended:  # those that ended meanwhile, in the same turn
            ended, _ = self._ray.wait(
                calls, num_returns=len(calls), timeout=0, fetch_local=False
            )
        return [(self._calls.pop(call), self._result(call)) for call in ended]

    def _result(self, call: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(call)
        except errors.RayTaskError as error:
            return error.cause
        except errors.RayError as error:
            return ActorLost(str(error).strip().split("\n")[0])

    def close(self) -> None:
        """End every actor, and every server that the farm started."""
        stops = [actor.stop.remote() for actor in self._actors.values()]
        self._ray.wait(stops, num_returns=len(stops), timeout=STOP_SECONDS)
        self._ray.shutdown()


def _ray() -> ModuleType:
    import ray
    import ray.exceptions

    return ray  # type: ignore[no-any-return]

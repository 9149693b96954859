"""The servers of a door on this machine's network: a thread each, without Ray."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .errors import Errors
from .servers import ServerSpec
from .words import Facts, Order, Outcome
from .worker import Patience, Worker


class Threads:
    """Runs each server's work in a thread; servers that are started run on this machine."""

    def __init__(
        self, specs: Sequence[ServerSpec], patience: Patience, errors: Errors, logs: Path
    ) -> None:
        self._workers = {spec.name: Worker(spec, patience, errors, logs) for spec in specs}
        self._pool = ThreadPoolExecutor(max(1, len(specs)), "farm")  # on Ray, perhaps none

    async def start(self, server: str) -> Facts:
        """Start or find a server; ServerFailed where it does not answer."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._workers[server].start)

    async def run(self, server: str, order: Order) -> Outcome:
        """Run a prompt to its end."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._workers[server].run, order)

    def wake(self, server: str) -> None:
        """Have a server's thread look at once."""
        self._workers[server].wake()

    def close(self) -> None:
        """End the servers that were started; leave the others what they run."""
        for worker in self._workers.values():
            worker.leave()
            worker.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers.values():
            worker.stop()  # what began meanwhile

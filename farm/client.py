"""A batch as a client of a farm's address: prompts go in, results come into a folder, each once."""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import outputs
from .comfy import Comfy, Unknown, Unreachable
from .errors import failure_of, refusal
from .history import ENDED_STATES
from .keys import prompt_id_of
from .progress import Counts, Progress
from .words import Asked, FarmError, Json

AHEAD = 200  # prompts that the farm has at once, at least
REPEATS = 10_000  # read again one after another: a generator that yields nothing new any more
LOOK_SECONDS = 0.5
STARTS = 5  # in a row that fail before a server that was there once is given up
TRIES = 3  # of a prompt whose files its server did not have any more
TARGET = "batch"  # in the ids of a batch's prompts, which are the same after a restart


class Farm(Comfy):
    """A farm's address, where a proxy may answer for a door that is away for a while.

    What no door answers counts as no answer, but at first, where the address may be a wrong one.
    """

    _was_there = False

    async def ask(
        self, method: str, path: str, body: Any = None, repeat: bool = True
    ) -> tuple[int, Any]:
        until = time.monotonic() + self._patience
        while True:
            status, answer = await super().ask(method, path, body, repeat)
            is_odd = status >= 500 or isinstance(answer, str) and answer != ""
            if path.startswith("/headroom/"):  # what a server said, through the door
                return status, answer
            if not is_odd or status < 500 and not self._was_there:
                self._was_there = not is_odd
                return status, answer
            if time.monotonic() > until:
                raise Unreachable(f"{method} {path} at {self.url} answered {status} and nothing "
                                  f"that a farm says for {self._patience:g} s")
            await asyncio.sleep(LOOK_SECONDS)


class Batch:
    """Runs prompts through a farm, which answers as a server does; results go to `results/<key>/`.

    `is_own`: the farm is there for this batch alone, so that nobody else mends its servers.
    """

    def __init__(
        self, farm: Comfy, results: Path, listener: Progress, is_own: bool = False
    ) -> None:
        self._farm, self._results, self._listener, self._is_own = farm, results, listener, is_own
        self._given: dict[str, Asked] = {}
        self._known: set[str] = set()
        self._repeats = 0  # prompts read in a row that this run has read before
        self._tried: Counter[str] = Counter()
        self._servers: dict[str, Json] = {}
        self.counts = Counts()

    async def run(self, prompts: Iterable[Asked]) -> None:
        """Run every prompt to its end; FarmError where the farm refuses, or has no server left."""
        shutil.rmtree(self._results / outputs.PARTIAL, ignore_errors=True)
        finished, left = outputs.finished_keys(self._results), iter(prompts)
        is_read = False
        await self._look()
        while True:
            is_read = is_read or await self._give(left, finished)
            if is_read and not self._given:
                return
            # Before the results: what ends meanwhile is seen next time.
            is_stuck = await self._look()
            if not await self._take():
                if is_stuck:
                    await self._give_up()
                await asyncio.sleep(LOOK_SECONDS)
            self._listener.changes(
                self.counts, [one["state"] for one in self._servers.values()])

    # ---------------------------------------------------- prompts go in

    async def _give(self, left: Iterator[Asked], finished: set[str]) -> bool:
        """Hand prompts in until enough are there; return whether all are."""
        while len(self._given) < max(AHEAD, 4 * len(self._servers)):
            asked = next(left, None)
            if asked is None:
                return True
            if asked.key in self._known:
                self._repeats += 1
                if self._repeats < REPEATS:
                    continue
                self._listener.says(f"{asked.name}: the last {REPEATS:,} prompts were all read "
                                    "before; no more are read.")
                return True
            self._repeats = 0
            self._known.add(asked.key)
            if asked.key in finished:
                self.counts.finished_before += 1
            else:
                await self._queue(asked)
        return False

    async def _queue(self, asked: Asked) -> None:
        prompt_id = prompt_id_of(asked.key, TARGET, 0)
        refused = await self._farm.queue(prompt_id, asked.prompt, asked.extra_data)
        if refused is None:
            self._given[prompt_id] = asked
        else:
            self._fails(asked, refusal(refused))

    # ---------------------------------------------------- results come

    async def _take(self) -> bool:
        """Bring what has ended; return whether anything had."""
        most = 16 + 4 * len(self._servers)  # the newest; what came before them has `_vanished`
        _, answer = await self._farm.ask(
            "GET", f"/api/jobs?limit={most}&status=completed,failed,cancelled")
        ended = [job["id"] for job in answer["jobs"] if job["id"] in self._given]
        ended = ended or (await self._vanished() if self._given else [])
        return any([await self._bring(prompt_id, self._given[prompt_id]) for prompt_id in ended])

    async def _vanished(self) -> list[str]:
        """The oldest prompt, where somebody took it out, or its end is not among the newest."""
        oldest = next(iter(self._given))
        status, job = await self._farm.ask("GET", f"/api/jobs/{oldest}")
        return [oldest] if status == 404 or job.get("status") in ENDED_STATES else []

    async def _bring(self, prompt_id: str, asked: Asked) -> bool:
        """Keep the result of a prompt; False while the server that has it is not there."""
        entry = await self._farm.ended(prompt_id)
        failure = failure_of(entry) if entry is not None else {
            "exception_message": "somebody took it out of the queue"}
        if failure:
            await self._forget(prompt_id)  # to be tried anew by the next run
            self._fails(asked, str(failure.get("exception_message", "interrupted")))
            return True
        assert entry is not None
        farm = entry.get("farm", {})
        server = str(farm.get("server", ""))
        if self._servers.get(server, {}).get("state") == "starting":
            return False
        folder = self._results / outputs.PARTIAL / asked.key
        try:
            await outputs.bring(self._farm.download, entry, folder, {
                "key": asked.key, "name": asked.name, "prompt_id": farm.get("attempt", prompt_id),
                "server": server, "rescued": bool(farm.get("rescued")),
                "moved": farm.get("moved", 0), "record": await self._farm.record(prompt_id)})
            outputs.commit(folder, self._results / asked.key)
            outputs.sync(self._results)
        except (Unknown, Unreachable) as error:  # its server is away, hangs, or has no such file
            return await self._is_again(prompt_id, asked, server, error)
        except OSError as error:
            raise FarmError(
                f"The results of {asked.name} cannot be kept in {self._results}: "
                f"{error.strerror or error}; make room there and start again.") from error
        del self._given[prompt_id]
        self.counts.finished += 1
        self.counts.rescued += bool(farm.get("rescued"))
        self.counts.moved += bool(farm.get("moved"))
        return True

    async def _is_again(self, prompt_id: str, asked: Asked, server: str, error: Exception) -> bool:
        """Have a prompt run once more whose files are gone; False while its server may come."""
        await self._look()
        if self._servers.get(server, {}).get("state") == "starting":
            return False
        await self._forget(prompt_id)
        self._tried[prompt_id] += 1
        if self._tried[prompt_id] >= TRIES:
            self._fails(asked, f"{server} does not give its files: {error}")
        else:
            self._listener.says(f"{asked.name} runs again: {server} does not give its files.")
            await self._queue(asked)
        return True

    async def _forget(self, prompt_id: str) -> None:
        await self._farm.ask("POST", "/history", {"delete": [prompt_id]})
        self._given.pop(prompt_id)

    def _fails(self, asked: Asked, why: str) -> None:
        self.counts.failed += 1
        self._listener.says(f"{asked.name} failed: {why}")

    # ---------------------------------------------------- servers

    async def _look(self) -> bool:
        """See what the servers do; return whether what waits has nowhere to go.

        FarmError where this is no farm, or not ours, or one of our own that has no server left.
        """
        status, farm = await self._farm.ask("GET", "/farm")
        if status != 200 or not isinstance(farm, dict) or "servers" not in farm:
            raise FarmError(f"{self._farm.url} is no farm that can be used: GET /farm answered "
                            f"{status}: {refusal(farm)[:200]}")
        for one in farm["servers"]:
            before = self._servers.get(one["name"], {})
            if one["why"] and one["why"] != before.get("why"):
                self._listener.says(f"{one['name']} is away: {one['why']}")
            self.counts.lost += one["losses"] - before.get("losses", 0)
            self._servers[one["name"]] = one
        if not self._is_own:
            return False
        gone = [_is_gone(one) for one in farm["servers"]]
        never = [one["failed_starts"] > 0 and not one["was_there"] for one in farm["servers"]]
        if all(map(any, zip(gone, never, strict=True))):
            raise FarmError("No server of the farm answers; the lines above say why.")
        return farm["remaining"] > 0 and all(
            is_gone or one["state"] in ("idle", "asleep")
            for one, is_gone in zip(farm["servers"], gone, strict=True))

    async def _give_up(self) -> None:
        """Fail what waits: no server is left that may run it."""
        await self._farm.ask("POST", "/queue", {"delete": list(self._given)})
        for prompt_id in list(self._given):
            if not await self._farm.has(prompt_id):
                self._fails(self._given.pop(prompt_id), "no server is left that may run it")


def _is_gone(server: Json) -> bool:
    return bool(server["state"] != "busy" and server["failed_starts"] >= STARTS)

"""A batch as a client of a farm's address: prompts go in, results come into a folder, each once."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from . import outputs
from .clients import untagged
from .comfy import Comfy, failure_of, refusal
from .counts import Counts
from .jobs import ENDED_STATES
from .keys import prompt_id_of
from .words import Asked, FarmError, Json

AHEAD = 200  # prompts that the farm has at once
LOOK_SECONDS = 0.5
TARGET = "batch"  # in the ids of a batch's prompts, which are the same after a restart


class Listener(Protocol):
    """Is told what happens."""

    def changes(self, farm: "Batch") -> None: ...
    def says(self, text: str) -> None: ...


class Batch:
    """Runs prompts through the farm at `url`; results are kept in `results/<key>/`."""

    def __init__(
        self, url: str, token: str, results: Path, patience_seconds: float, listener: Listener
    ) -> None:
        self._farm = Comfy(url, patience_seconds)
        self._farm.show({"X-Farm-Token": token} if token else {})
        self._results, self._listener = results, listener
        self._given: dict[str, Asked] = {}
        self.counts = Counts()
        self.states: list[str] = []

    def run(self, prompts: Iterable[Asked]) -> None:
        """Run every prompt to its end; FarmError where the farm refuses to be asked."""
        finished, left = outputs.finished_keys(self._results), iter(prompts)
        known: set[str] = set()
        is_read = False
        self._look()
        while True:
            is_read = is_read or self._give(left, finished, known)
            if is_read and not self._given:
                return
            if not self._take():
                time.sleep(LOOK_SECONDS)
            self._listener.changes(self)

    def _give(self, left: Iterator[Asked], finished: set[str], known: set[str]) -> bool:
        """Hand prompts in until enough are there; return whether all are."""
        while len(self._given) < AHEAD:
            asked = next(left, None)
            if asked is None:
                return True
            if asked.key in known:
                continue
            known.add(asked.key)
            if asked.key in finished:
                self.counts.finished_before += 1
                continue
            prompt_id = prompt_id_of(asked.key, TARGET, 0)
            refused = self._farm.queue(prompt_id, asked.prompt, asked.extra_data)
            if refused is None:
                self._given[prompt_id] = asked
            else:
                self._fails(asked, refusal(refused))
        return False

    def _take(self) -> bool:
        """Bring what has ended; return whether anything had."""
        _, answer = self._farm.ask(
            "GET", f"/api/jobs?limit={2 * AHEAD}&status=completed,failed,cancelled")
        ended = {job["id"] for job in answer["jobs"]} & set(self._given)
        for prompt_id in ended or (self._vanished() if self._given else ()):
            self._bring(prompt_id, self._given.pop(prompt_id))
        self._look()
        return bool(ended)

    def _look(self) -> None:
        """See what the servers do; FarmError where this is no farm, or not ours."""
        status, farm = self._farm.ask("GET", "/farm")
        if status != 200 or not isinstance(farm, dict) or "servers" not in farm:
            raise FarmError(f"{self._farm.url} is no farm that can be used: GET /farm answered "
                            f"{status}: {refusal(farm)[:200]}")
        self.states = [one["state"] for one in farm["servers"]]

    def _vanished(self) -> list[str]:
        """The oldest prompt, where somebody took it out, or its end is not among the newest."""
        oldest = next(iter(self._given))
        status, job = self._farm.ask("GET", f"/api/jobs/{oldest}")
        return [oldest] if status == 404 or job.get("status") in ENDED_STATES else []

    def _bring(self, prompt_id: str, asked: Asked) -> None:
        entry = self._farm.ended(prompt_id)
        failure = failure_of(entry) if entry is not None else {
            "exception_message": "somebody took it out of the queue"}
        if failure:
            self._fails(asked, str(failure.get("exception_message", "interrupted")))
            self._farm.ask("POST", "/history", {"delete": [prompt_id]})  # to be tried anew
            return
        folder = self._results / outputs.PARTIAL / asked.key
        assert entry is not None
        outputs.bring(_Files(self._farm, entry), untagged(entry), folder, {
            "key": asked.key, "name": asked.name, "prompt_id": prompt_id,
            "record": self._farm.record(prompt_id)})
        outputs.commit(folder, self._results / asked.key)
        outputs.sync(self._results)
        self.counts.finished += 1

    def _fails(self, asked: Asked, why: str) -> None:
        self.counts.failed += 1
        self._listener.says(f"{asked.name} failed: {why}")


class _Files:
    """The files of one prompt, under the names that its server gave them."""

    def __init__(self, farm: Comfy, entry: Json) -> None:
        self._farm = farm
        folders = [query["subfolder"] for query in outputs.files_of(entry)]
        self._tag = folders[0].partition("/")[0] if folders else ""

    def download(self, query: dict[str, str]) -> Iterator[bytes]:
        """Yield a file piece by piece."""
        below = query["subfolder"]
        return self._farm.download(
            {**query, "subfolder": f"{self._tag}/{below}" if below else self._tag})

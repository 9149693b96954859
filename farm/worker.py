"""One server of a farm, started or adopted, and given one prompt at a time; without Ray."""

import asyncio
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

from . import process
from .comfy import Comfy, Unknown, Unreachable
from .errors import Errors, failure_of, is_out_of_memory, refusal, strange
from .servers import HOST, PORT, ServerSpec
from .words import Facts, Json, Order, Outcome, plain

LOGS = ".servers"
LOOK_SECONDS = 0.25
REST_SECONDS = 30.0  # for an interrupted prompt to end


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds: for a start, without an answer, for a prompt."""

    start: float = 300.0
    silent: float = 120.0
    prompt: float = 3600.0


class ServerFailed(RuntimeError):
    """The server does not start or answer; the message is one sentence."""


class Worker:
    """Has one server. Its log goes below the folder `logs` where it is started.

    `errors` tells which of a server's errors are out of memory.
    """

    def __init__(
        self, spec: ServerSpec, patience: Patience, errors: Errors, logs: Path,
        host: str = "127.0.0.1",
    ) -> None:
        self._host = host if any(HOST in word for word in spec.command) else "127.0.0.1"
        self._spec = spec
        self._patience = patience
        self._errors = errors
        self._log = logs / LOGS / f"{plain(spec.name)}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._comfy: Comfy | None = None
        self._facts = Facts()

    # ---------------------------------------------------- the server

    async def start(self) -> Facts:
        """Start a server where the farm does that, and wait until it answers; else ServerFailed."""
        await self.close()
        self._comfy = comfy = self._begun() if self._spec.is_started else Comfy(
            self._spec.url, self._patience.silent)
        return await self._wait_for(comfy)

    async def close(self) -> None:
        """End the server where the farm started it; leave any other what it runs."""
        found, self._comfy = self._comfy, None
        if found is not None:
            await found.close()
        await asyncio.to_thread(self.stop)  # a large process takes a while to end

    def stop(self) -> None:
        running, self._process = self._process, None
        if running is not None:
            process.kill(running)

    def _begun(self) -> Comfy:
        port = process.free_port()
        command = [word.replace(PORT, str(port)).replace(HOST, self._host)
                   for word in self._spec.command]
        try:
            self._process = process.start(
                command, Path(self._spec.folder), self._spec.env, self._log
            )
        except OSError as error:
            raise ServerFailed(
                f"{self._spec.name} cannot be started: {error.strerror or error}."
            ) from error
        return Comfy(f"http://{self._host}:{port}", self._patience.silent, self._is_alive)

    def _is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def _wait_for(self, comfy: Comfy) -> Facts:
        until = time.monotonic() + self._patience.start
        while True:
            try:
                self._facts = await comfy.facts()
                return self._facts
            except Unreachable as error:
                is_over = not self._spec.is_started or not self._is_alive()
                if is_over or time.monotonic() > until:
                    raise ServerFailed(self._why(error)) from error
            except Exception as error:
                raise ServerFailed(f"{strange(self._spec.name, error)}.") from error
            await asyncio.sleep(LOOK_SECONDS)

    def _why(self, error: Unreachable) -> str:
        words = process.last_words(self._log) if self._spec.is_started else ""
        said = f"; its log {self._log} ends with: {words}" if words else ""
        return f"{self._spec.name} does not answer: {error}{said}."

    # ---------------------------------------------------- a prompt

    def wake(self) -> None:
        """Look at once whether the prompt has ended."""
        if self._comfy is not None:
            self._comfy.wake()

    async def run(self, order: Order) -> Outcome:
        """Run a prompt to its end, however that comes; never raises."""
        try:
            return await self._run(order)
        except Unreachable as error:
            return Outcome("lost", str(error))
        except Unknown as error:
            return Outcome("error", str(error))
        except Exception as error:  # noqa: BLE001 - the answers are another program's
            return Outcome("error", strange(self._spec.name, error))

    async def _run(self, order: Order) -> Outcome:
        comfy = self._comfy
        if comfy is None:
            return Outcome("lost", "no server was started")
        if order.abandoned:
            await comfy.forget(order.abandoned)
        if order.room_mib and not await comfy.is_ready(order.room_mib):
            return Outcome("no room", facts=await comfy.facts())
        if not (order.resumes and await comfy.has(order.prompt_id)):
            if order.elsewhere_mib and (facts := await comfy.facts()).room_mib is not None:
                guessed_mib = await comfy.estimate(order.asked.prompt)
                if facts.room_mib < guessed_mib <= order.elsewhere_mib:
                    return Outcome("no room", facts=facts, needed_mib=guessed_mib)
            refused = await comfy.queue(order.prompt_id, order.asked.prompt, _extra(order))
            if refused is not None:
                answer = refused if isinstance(refused, dict) else {}
                return Outcome("refused", refusal(refused), await comfy.facts(), entry=answer)
        return await self._followed(comfy, order)

    async def _followed(self, comfy: Comfy, order: Order) -> Outcome:
        until = time.monotonic() + self._patience.prompt
        runs = [order.prompt_id]
        for prompt_id in runs:  # which its rerun may join
            if (found := await comfy.wait(prompt_id, until)) is None:
                return await self._too_long(comfy, prompt_id)
            entry, record = found, await comfy.record(prompt_id)
            runs += [str(record["rescued_as"])] if record.get("rescued_as") else []
        had, facts = self._facts, await comfy.facts()
        self._facts = facts
        failure = failure_of(entry)
        if failure:
            return replace(self._failed(failure, facts), entry=entry, attempt=prompt_id)
        rescued = len(runs) > 1 or any(item.get("recovered") for item in record.get("oom") or ())
        needed = _needed_mib(record, had.total_mib, had.room_mib)
        return Outcome("done", "", facts, needed, rescued, prompt_id, entry)

    def _failed(self, failure: Json, facts: Facts) -> Outcome:
        if failure.get("interrupted"):
            return Outcome("interrupted", "somebody stopped it", facts)
        node = f"node {failure.get('node_id')} ({failure.get('node_type')})"
        first_line = str(failure.get("exception_message", "")).strip().split("\n")[0]
        said = f"{node}: {failure.get('exception_type')}: {first_line}"[:500]
        ran_out = is_out_of_memory(failure, self._errors)
        return Outcome("out of memory" if ran_out else "error", said, facts)

    async def _too_long(self, comfy: Comfy, prompt_id: str) -> Outcome:
        await comfy.forget([prompt_id])
        if await comfy.wait(prompt_id, time.monotonic() + REST_SECONDS) is None:
            raise Unreachable(f"a prompt ran for {self._patience.prompt:g} s and cannot be stopped")
        return Outcome("timeout", f"it ran for {self._patience.prompt:g} s", await comfy.facts())


def _extra(order: Order) -> Json:
    """The prompt's own `extra_data`, whose wishes win over the farm's."""
    own = order.asked.extra_data.get("headroom", {})
    farm = {"rescue": order.rescue, **({"guard": True} if order.guard else {})}
    return {**order.asked.extra_data, "headroom": {**farm, **own}}


def _needed_mib(record: Json, total_mib: float | None, room_mib: float | None) -> float | None:
    """The part of its room that a run took at its peak; what others held does not count."""
    peak = record.get("peak_vram_at_most_mib") or record.get("peak_vram_mib")
    if peak is None or total_mib is None or room_mib is None:
        return None
    return max(0.0, float(peak) - (total_mib - room_mib))

"""What goes on around the prompts of the soak, each in a thread of its own."""

import collections
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import soak_server

from tools.client import Client
from tools.events import FINISHED


class Worker:
    """A thread that repeats `turn` until it is stopped; what it raises is kept in `problems`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"{type(self).__name__}/{seed}")
        self.counts: collections.Counter[str] = collections.Counter()
        self.problems: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self.end()

    def turn(self) -> None:
        """One round, with its own pause."""
        raise NotImplementedError

    def end(self) -> None:
        """Put things right once the thread has ended."""

    def rest(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.turn()
            except Exception as error:  # noqa: BLE001 - a finding; the soak goes on
                self.problems.append(f"{type(self).__name__}: {type(error).__name__}: {error}")
                self.rest(1.0)


class Hammer(Worker):
    """Asks for purges and offloads all the time, and looks at memory and runs as a panel does."""

    ALLOWED = (200, 404, 409)

    def __init__(self, client: Client, seed: int, pause: float) -> None:
        super().__init__(seed)
        self.client, self.pause = client, pause

    def turn(self) -> None:
        ask = self.random.choices(
            (self._purge, self._offload, self._memory, self._runs), (5, 5, 1, 1)
        )[0]
        ask()
        self.rest(self.pause)

    def _purge(self) -> None:
        body = self.random.choice(
            ({}, {"free_ram": True}, {"unload": "no models"}, {"reset_node_cache": True})
        )
        self._post("purge", body)

    def _offload(self) -> None:
        models = self.client.get_json("/headroom/memory")["models"]
        model = self.random.choice(models)["id"] if models else "nothing"
        scope = self.random.choice(("this model", "every other model"))
        body = {"model": model, "scope": scope, "to": self.random.choice(("CPU", "disk"))}
        self._post("offload", body, bad_ok=True)

    def _post(self, what: str, body: dict[str, Any], bad_ok: bool = False) -> None:
        status, answer = self.client.post_json(f"/headroom/{what}", body)
        self.counts[f"{what} {status}"] += 1
        # A model can go between being listed and being named.
        gone = bad_ok and status == 400 and "model" in str(answer)
        # While the disk refuses, an offload to it has to fail, with our own sentence.
        full = bad_ok and status == 400 and "could not write to ComfyUI's temp" in str(answer)
        if status not in self.ALLOWED and not gone and not full:
            self.problems.append(f"POST /headroom/{what} answered {status}: {answer}")

    def _memory(self) -> None:
        self.counts["memory"] += bool(self.client.get_json("/headroom/memory")["devices"])

    def _runs(self) -> None:
        self.counts["runs"] += bool(self.client.get_json("/headroom/runs")["runs"])


class CacheVandal(Worker):
    """Damages files in the folder of cached embeddings, now and then and when told to."""

    def __init__(self, folder: Path, seed: int, pause: float) -> None:
        super().__init__(seed)
        self.folder, self.pause = folder, pause
        self._one_at_a_time = threading.Lock()

    def turn(self) -> None:
        self.rest(self.random.uniform(0.5, 1.5) * self.pause)
        self.damage(1)

    def damage(self, most: int) -> None:
        """Damage up to `most` files, each in some way."""
        with self._one_at_a_time:
            found = sorted(self.folder.glob("*.safetensors"))
            for path in self.random.sample(found, min(most, len(found))):
                way = self.random.choice(list(WAYS))
                try:
                    WAYS[way](path, found, self.random)
                    self.counts[way] += 1
                except OSError as error:  # the server was faster
                    self.counts[f"too late: {type(error).__name__}"] += 1

    def end(self) -> None:
        for path in self.folder.glob("*.safetensors"):
            _clear(path)


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _put(path: Path, data: bytes) -> None:
    if path.is_symlink() or path.is_dir():
        _clear(path)
    path.write_bytes(data)


def _flip(path: Path, found: list[Path], chance: random.Random) -> None:
    if data := bytearray(_content(path)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        _put(path, bytes(data))


def _cut(path: Path, found: list[Path], chance: random.Random) -> None:
    data = _content(path)
    _put(path, data[: chance.randrange(len(data) + 1)])


def _folder(path: Path, found: list[Path], chance: random.Random) -> None:
    _clear(path)
    path.mkdir(exist_ok=True)


def _dangle(path: Path, found: list[Path], chance: random.Random) -> None:
    _clear(path)
    path.symlink_to(path.parent / "nowhere" / "at all")


WAYS: dict[str, Callable[[Path, list[Path], random.Random], None]] = {
    "flip": _flip, "cut": _cut, "folder": _folder, "dangle": _dangle,
    "empty": lambda path, found, chance: _put(path, b""),
    "swap": lambda path, found, chance: _put(path, _content(chance.choice(found))),
    "junk": lambda path, found, chance: _put(path, chance.randbytes(chance.randrange(1, 300_000))),
    "remove": lambda path, found, chance: _clear(path),
}


class DiskFull(Worker):
    """Turns a limit on every file of the server on and off; `times` holds when it was on."""

    def __init__(self, pid: int, seed: int, pause: float) -> None:
        super().__init__(seed)
        self.pid, self.pause = pid, pause
        self.times: list[tuple[float, float]] = []
        self.since: float | None = None

    def turn(self) -> None:
        self.rest(self.random.uniform(1.0, 3.0) * self.pause)
        if not soak_server.CAN_LIMIT:
            return
        self.since = started = time.time()
        soak_server.limit_files(self.pid, soak_server.FILE_LIMIT_BYTES)
        self.counts["times"] += 1
        try:
            self.rest(self.random.uniform(0.5, 1.5) * self.pause)
        finally:
            soak_server.limit_files(self.pid, None)
            self.times.append((started, time.time()))
            self.since = None


class Listener(Worker):
    """One browser: takes in every event, and sends an interrupt while chosen prompts run."""

    def __init__(self, client: Client, seed: int) -> None:
        super().__init__(seed)
        self.client = client
        self.stream = client.events()
        self.finished: set[str] = set()
        self.interrupt_after: dict[str, float] = {}

    def turn(self) -> None:
        event = self.stream.receive(0.5)
        if event is None:
            return
        kind, prompt_id = event["type"], str((event.get("data") or {}).get("prompt_id"))
        self.counts[kind] += 1
        if kind in FINISHED:
            self.finished.add(prompt_id)
        elif kind == "execution_start" and prompt_id in self.interrupt_after:
            self.rest(self.interrupt_after.pop(prompt_id))
            self.client.interrupt()
            self.counts["interrupts sent"] += 1

    def end(self) -> None:
        self.stream.close()


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    import psutil

    return int(psutil.Process(pid).memory_info().rss)


def cache_folder(base: Path) -> Path:
    """Where a server with that base folder keeps its embeddings."""
    return base / "user" / "__headroom" / "embeddings"

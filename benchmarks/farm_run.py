"""The farm of `farm_proof`: its command, the faults around it, and what it left on disk."""

import contextlib
import hashlib
import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from on_path import ROOT

from tools.client import Client, Unexpected
from tools.processes import end_process, start_process
from tools.server import ComfyServer

SILENT_SECONDS = 12  # a busy machine is not a hung server
LOOK_SECONDS = 0.1
LONGEST_SECONDS = 1500
Json = dict[str, Any]


@dataclass
class Fault:
    """A fault of a server that runs a prompt, once so many prompts are finished.

    `base` is a folder that the command lines of its processes name.
    """

    what: str
    after: int
    base: str = ""
    is_done: bool = False


class Farm:
    """One folder of results, and the command that fills it, as often as it is started."""

    def __init__(self, folder: Path, servers: list[Any]) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.file, self._results = folder / "prompts.jsonl", folder / "results"
        self._servers = folder / "servers.json"
        entries = [{"url": one, "name": one} if isinstance(one, str) else one for one in servers]
        self._servers.write_text(json.dumps(entries), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._cpu: list[tuple[int, float]] = []  # prompts finished, CPU seconds of the head

    def write(self, prompts: list[Json]) -> None:
        lines = (json.dumps(prompt) for prompt in prompts)
        self.file.write_text("\n".join(lines), encoding="utf-8")

    # ---------------------------------------------------- running

    def run_through(self) -> None:
        """Run until the farm ends by itself; RuntimeError when it does not end well."""
        self._start()
        self._look(lambda: self._running().poll() is not None)
        if self._running().returncode != 0:
            raise RuntimeError(f"The farm ended with {self._running().returncode}:\n{self.log()}")
        self._process = None

    def run_until(self, fault: Fault) -> None:
        """Run until it is time for the fault, then cause it; start the farm first if needed."""
        if self._process is None:
            self._start()
        self._look(lambda: self._finished() >= fault.after and self._works(fault))
        if fault.what == "driver_killed":
            end_process(self._running(), grace_seconds=0)
            self._process = None
            time.sleep(5)  # for the kernel to end what it started
            fault.is_done = True
            return
        sign = signal.SIGKILL if fault.what == "server_killed" else signal.SIGSTOP
        for process in self._with(fault.base):
            process.send_signal(sign)
            fault.is_done = True

    def _start(self) -> None:
        words = ["run", str(self.file), "--servers", str(self._servers), "--results",
                 str(self._results), "--silent-seconds", str(SILENT_SECONDS)]
        with (self.folder / "log").open("ab") as log:
            self._process = start_process([sys.executable, "-m", "farm", *words], cwd=ROOT,
                                          env=os.environ, output=log)

    def _look(self, is_over: Any) -> None:
        deadline = time.monotonic() + LONGEST_SECONDS
        while not is_over():
            if time.monotonic() > deadline:
                end_process(self._running(), grace_seconds=0)
                raise RuntimeError(f"The farm does not come to an end:\n{self.log()}")
            self._measure()
            time.sleep(LOOK_SECONDS)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _measure(self) -> None:
        try:
            times = psutil.Process(self._running().pid).cpu_times()
        except psutil.Error:
            return
        self._cpu.append((self._finished(), times.user + times.system))

    def _works(self, fault: Fault) -> bool:
        """Whether the fault's server runs a prompt and has run some before."""
        for process in self._with(fault.base) if fault.base else ():
            words = process.cmdline()
            client = Client(f"http://127.0.0.1:{words[words.index('--port') + 1]}", timeout=5)
            try:
                queue, history = map(client.get_json, ("/queue", "/history"))
            except (OSError, Unexpected):
                return False
            return bool(queue["queue_running"]) and len(history) >= 3
        return not fault.base

    def _finished(self) -> int:
        return len(list(self._results.glob("*/result.json")))

    # ---------------------------------------------------- what is there

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-6000:]

    def processes(self, *bases: str) -> list[str]:
        """The command lines of what runs in those folders."""
        return [" ".join(process.cmdline())[:200] for base in bases for process in self._with(base)]

    @staticmethod
    def _with(base: str) -> list[psutil.Process]:
        return [process for process in psutil.process_iter(["cmdline", "status"])
                if base in (process.info["cmdline"] or ())
                and process.info["status"] != psutil.STATUS_ZOMBIE]

    def results(self) -> list[Json]:
        return [json.loads(path.read_text(encoding="utf-8"))
                for path in self._results.glob("*/result.json")]

    def sha256(self, key: str, name: str) -> str:
        return hashlib.sha256((self._results / key / name).read_bytes()).hexdigest()

    def entries(self) -> list[Json]:
        """The history of the farm, once it has ended: it keeps the file to itself before."""
        with contextlib.closing(sqlite3.connect(self._results / "farm.sqlite")) as store:
            rows = store.execute("SELECT entry FROM prompts WHERE entry IS NOT NULL")
            return [json.loads(entry) for [entry] in rows]

    def pace(self) -> Json:
        """Prompts a minute, and the CPU time of the head a prompt."""
        spans = []
        for entry in self.entries():
            told = {kind: data["timestamp"] for kind, data in entry["status"]["messages"]
                    if "timestamp" in data}
            if "execution_start" in told and "execution_success" in told:
                spans.append((told["execution_start"], told["execution_success"]))
        minutes = (max(end for _, end in spans) - min(start for start, _ in spans)) / 60_000
        return {"prompts_a_minute": round(len(spans) / minutes, 1),
                "driver_cpu_ms_a_prompt": self._cpu_ms()}

    def _cpu_ms(self) -> float | None:
        """CPU seconds of the head since its last start, without the start itself."""
        last = [self._cpu[-1]] if self._cpu else []
        for point in reversed(self._cpu[:-1]):
            if point[1] > last[-1][1]:
                break
            last.append(point)
        begun = next((point for point in reversed(last) if point[0] > last[-1][0]), None)
        if begun is None or last[0][0] <= begun[0]:
            return None
        return round(1000 * (last[0][1] - begun[1]) / (last[0][0] - begun[0]), 2)


def has_door() -> bool:
    return importlib.util.find_spec("starlette") is not None


def own_server(server: ComfyServer, name: str) -> Json:
    """What a servers file says of a server that the farm starts itself."""
    server.prepare_base()
    return {"name": name, "command": server.command("{port}"), "folder": str(server.base_dir),
            "env": dict(server.env or {}), "gpus": 0}

"""What a farm's door costs: time it adds to a prompt, prompts it accepts, memory of a long queue.

    python benchmarks/farm_door.py [--write]

The servers compute nothing (`lab/fake_comfy.py`), so what is measured is the door. Times
are given beside those of the same prompts sent to the same server without a door.
"""

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp  # keeps its connection, as a client that is timed should
import psutil
from farm_run import has_door
from on_path import ROOT

from tools.bench_run import alone
from tools.client import Client
from tools.errors import NotHere
from tools.lab import fake_comfy
from tools.waiting import wait_until

NAME = "farm_door"
NODES = 20  # of a prompt, so that its size is a usual one
SECONDS = 0.05  # of "work" in each prompt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=int, default=100, help="timed one by one")
    parser.add_argument("--queued", type=int, default=10_000)


def graph(seed: int, seconds: float = SECONDS) -> Any:
    """A prompt with as many nodes and words as a usual one."""
    return {str(n): {"class_type": "Fake", "inputs": {
        "text": "a mountain lake at dawn, " * 4, "seed": seed, "seconds": seconds, "steps": 20}}
        for n in range(NODES)}


class Door:
    """`farm serve` in a process, with the servers at these addresses."""

    def __init__(self, urls: list[str], folder: str) -> None:
        self._log = Path(folder) / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "farm", "serve", "--port", "0", "--results", folder,
                 "--servers", *urls], cwd=ROOT, stdout=log, stderr=log)
        said = wait_until(lambda: re.search(r"The farm is at (\S+)", self._log.read_text()))
        self.url = said[1]
        self.client = Client(self.url)
        self.process = psutil.Process(self._process.pid)

    @property
    def remaining(self) -> int:
        return int(self.client.get_json("/prompt")["exec_info"]["queue_remaining"])

    def finish(self) -> None:
        """Wait until nothing is left to do."""
        wait_until(lambda: not self.remaining)

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def comfies(*sizes_mib: int) -> Iterator[list[Any]]:
    """Servers of these sizes that compute nothing."""
    made = [fake_comfy().FakeComfy(mib) for mib in sizes_mib]
    try:
        yield made
    finally:
        for one in made:
            one.stop()


async def timed(url: str, count: int) -> list[float]:
    """Seconds from sending each prompt to hearing that it has ended, one after another."""
    found = []
    async with (aiohttp.ClientSession(url, raise_for_status=True) as session,
                session.ws_connect("/ws?clientId=bench") as heard):
        for seed in range(count):
            began = time.perf_counter()
            body: Any = {"prompt": graph(seed), "client_id": "bench",
                         "extra_data": {"client_id": "bench"}}
            await (await session.post("/prompt", json=body)).read()
            async for message in heard:
                is_text = message.type is aiohttp.WSMsgType.TEXT
                event: Any = json.loads(message.data) if is_text else {"type": ""}
                if event["type"] == "executing" and event["data"]["node"] is None:
                    break
            found.append(time.perf_counter() - began)
    return found


async def accepted(url: str, count: int) -> float:
    """Seconds in which a door accepts so many prompts from a few clients."""
    seeds = iter(range(count))

    async def work() -> None:
        async with aiohttp.ClientSession(url, raise_for_status=True) as session:
            for seed in seeds:
                await (await session.post("/prompt", json={"prompt": graph(seed)})).read()

    began = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(4)])
    return time.perf_counter() - began


def throughput(servers: int, count: int) -> float:
    """Prompts a second that so many servers finish, when all are queued at once."""
    with (tempfile.TemporaryDirectory() as folder, comfies(*[4000] * servers) as made,
          Door([one.url for one in made], folder) as door):
        wait_until(lambda: all(one["state"] == "idle"
                               for one in door.client.get_json("/farm")["servers"]))
        began = time.perf_counter()
        for seed in range(count):
            door.client.queue(graph(seed, 0.5))
        door.finish()
        return count / (time.perf_counter() - began)


def run(args: argparse.Namespace) -> dict:
    """Return times in ms, memory in MiB and rates."""
    if not has_door():
        raise NotHere("it needs Starlette: pip install -r farm/requirements.txt")
    figures: dict = {"prompts": args.prompts, "queued": args.queued}
    one, three = throughput(1, 20), throughput(3, 60)
    figures["three_to_one"] = round(three / one, 2)
    with comfies(4000) as [comfy], tempfile.TemporaryDirectory() as folder:
        figures["alone_ms"] = _ms(asyncio.run(timed(comfy.url, args.prompts)))
        with Door([comfy.url], folder) as door:
            asyncio.run(timed(door.url, 5))
            before = sum(door.process.cpu_times()[:2])
            figures["door_ms"] = _ms(asyncio.run(timed(door.url, args.prompts)))
            cpu = sum(door.process.cpu_times()[:2]) - before
            figures["cpu_ms_a_prompt"] = round(1000 * cpu / args.prompts, 2)
        figures["added_ms"] = round(figures["door_ms"] - figures["alone_ms"], 1)
    with tempfile.TemporaryDirectory() as folder:  # nobody takes what is accepted
        with Door([comfy.url], folder) as door:
            empty = door.process.memory_info().rss
            seconds = asyncio.run(accepted(door.url, args.queued))
            figures["accepted_a_second"] = round(args.queued / seconds)
            grown = door.process.memory_info().rss - empty
            figures["empty_mib"] = round(empty / 2**20, 1)
            figures["queue_mib"] = round(grown / 2**20, 1)
            assert door.remaining == args.queued
        began = time.perf_counter()
        with Door([comfy.url], folder) as door:
            door.client.get_json("/prompt")
            figures["restart_s"] = round(time.perf_counter() - began, 2)
    return figures


def _ms(seconds: list[float]) -> float:
    return round(1000 * statistics.median(seconds), 1)


if __name__ == "__main__":
    alone()

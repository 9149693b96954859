"""A queue of mixed prompts from two clients on a GPU too small for a third of them, rescue on.

    python benchmarks/rescue_queue.py --comfyui PATH [--prompts N]

On the simulated GPU. None of the prompts holds a guard. Two clients queue theirs in turn; some are
interrupted while they run; once the server is killed in the middle, and each client queues again
what it has seen no result of. In the end every prompt must have ended in a success, or have been
interrupted; have written its file exactly once; and the history must show the prompts in the order
in which they were queued, every rerun right after its first one.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import serve
from tools.bench_run import alone
from tools.client import was_interrupted
from tools.graph import Graph
from tools.rescued import RESCUE, picture, wait_until

NAME = "rescue_queue"
CLIENTS = ("one", "two")
INTERRUPTED_OF = 20  # one prompt in so many
LARGE_OF = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--capacity", type=int, default=60, help="MiB; the large ones need more")
    parser.add_argument("--seed", type=int, default=1)


@dataclass
class Asked:
    """One prompt of one client, and every id under which it was queued."""

    number: int
    client: str
    graph: Graph
    is_large: bool
    is_interrupted: bool
    ids: list[str] = field(default_factory=list)
    ended: str = ""

    @property
    def pictures(self) -> int:
        return int(self.graph.prompt["latent"]["inputs"]["batch_size"])

    @property
    def prefix(self) -> str:
        return f"queue{self.number:03d}"


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return how many prompts ended how, and what was wrong with the files and the order."""
    asked = _prompts(args.prompts, random.Random(args.seed))
    bench = _Bench(asked)
    weights = models.models_folder()
    models.make_models(weights, [models.TEST_CHECKPOINT], comfyui=args.comfyui)
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        for is_last in (False, True):
            with serve(args, base, args.capacity, models_dir=weights) as started:
                bench.serve(started, killed_at=None if is_last else args.prompts // 2)
            bench.see_files(folder / "output")
        bench.judge_files(folder / "output")
    return {"prompts": len(asked), **bench.counts(), "problems": bench.problems}


def _prompts(count: int, chance: random.Random) -> list[Asked]:
    found = []
    for number in range(count):
        large = number % LARGE_OF == 0
        size, batch = (256, 6) if large else chance.choice(((64, 1), (64, 2), (128, 1)))
        graph = picture(seed=number, size=size, batch=batch)
        asked = Asked(number, CLIENTS[number % 2], graph, large,
                      number % INTERRUPTED_OF == INTERRUPTED_OF // 2)
        graph.prompt["save"]["inputs"]["filename_prefix"] = asked.prefix
        found.append(asked)
    return found


class _Bench:
    """The two clients, over the lives of the server."""

    def __init__(self, asked: list[Asked]) -> None:
        self.asked = asked
        self.problems: list[str] = []
        self.rescued = 0

    def serve(self, started: Any, killed_at: int | None) -> None:
        """Queue what has no result yet, and wait for all of it, or for the end of the server."""
        client = started.client()
        waiting = [one for one in self.asked if not one.ended]
        for one in waiting:
            one.ids = [client.queue(one.graph.prompt, one.client, RESCUE)]
        for done, one in enumerate(waiting):
            if killed_at is not None and done == killed_at:
                started.process.kill()
                started.process.wait()
                return
            self._wait(client, one)
        self._judge_order(client, waiting)

    def see_files(self, folder: Path) -> None:
        """After the server's end: a prompt with all its files is done; of others all files go."""
        for one in self.asked:
            files = list(folder.glob(f"{one.prefix}_*"))
            if not one.ended and len(files) == one.pictures:
                one.ended = "success"
            elif not one.ended:
                for file in files:
                    file.unlink()

    def _wait(self, client: Any, one: Asked) -> None:
        [first] = one.ids
        if one.is_interrupted:
            wait_until(lambda: _runs(client, first) or client.history(first), 600)
            client.post_json("/interrupt", {"prompt_id": first})
        entry = client.wait(first, 900)
        second = client.get_json(f"/headroom/runs/{first}")["rescued_as"]
        if second is not None:
            self.rescued += 1
            one.ids.append(second)
            if was_interrupted(entry):
                self.problems.append(f"{one.prefix} was interrupted and ran again")
            entry = client.wait(second, 900)
        one.ended = _end_of(entry)
        if one.ended == "error":
            self.problems.append(f"{one.prefix} ended in an error")

    def _judge_order(self, client: Any, waited: list[Asked]) -> None:
        expected = [prompt_id for one in waited for prompt_id in one.ids]
        found = list(client.get_json("/history"))
        if found != expected:
            self.problems.append("the history is not in the order of the queue")

    def judge_files(self, folder: Path) -> None:
        """Every prompt that succeeded has written its files once."""
        for one in self.asked:
            written = len(list(folder.glob(f"{one.prefix}_*")))
            wanted = one.pictures if one.ended == "success" else 0
            if written != wanted:
                self.problems.append(f"{one.prefix} ({one.ended}) wrote {written} of {wanted}")

    def counts(self) -> dict[str, Any]:
        ended = [one.ended for one in self.asked]
        return {"succeeded": ended.count("success"), "interrupted": ended.count("interrupted"),
                "rescued": self.rescued, "large": _count(one.is_large for one in self.asked)}


def _runs(client: Any, prompt_id: str) -> bool:
    return any(item[1] == prompt_id for item in client.get_json("/queue")["queue_running"])


def _end_of(entry: dict[str, Any]) -> str:
    return "interrupted" if was_interrupted(entry) else str(entry["status"]["status_str"])


def _count(flags: Iterable[bool]) -> int:
    return sum(flags)


if __name__ == "__main__":
    alone()

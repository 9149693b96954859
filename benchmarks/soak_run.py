"""The long run of the soak: prompts in bursts on one server, everything going wrong around them."""

import argparse
import random
import sys
import time
import uuid
from contextlib import ExitStack
from typing import Any, NamedTuple

import soak_server
from soak_chaos import CacheVandal, DiskFull, Hammer, Listener, cache_folder, rss_bytes
from soak_judge import PERSISTENT, Done, Judge, Kept, Reference, slope
from soak_prompts import Soaked, build

from tools.bench_device import MIB, TIMEOUT_S
from tools.client import Client, was_interrupted
from tools.graph import Graph, add_purge

SHORTAGES = ("oom", "runtime", "async_pool", "cublas", "cudnn", "mps", "accelerator", "host")
FOUND_DAMAGED = "is not usable and will be replaced"
USE_CACHE = ("encode_from_disk", "encode_lines")


class Point(NamedTuple):
    """What the emptied server held after so many prompts.

    In use: what its C heap has given out (resident memory where that is not told), without what
    safetensors keeps of every tensor that it reads.
    """

    prompts: int
    allocated_bytes: int
    rss_bytes: int
    in_use_bytes: int


class Soak:
    """The long run on one server."""

    def __init__(self, server: soak_server.PipedServer, args: argparse.Namespace) -> None:
        assert server.process is not None
        self.server, self.args, self.pid = server, args, server.process.pid
        self.client = server.client()
        self.random = random.Random(args.seed)
        self.references: dict[tuple[str, int], Reference] = {}
        self.judge = Judge(self.references, server.base_dir / "output" / "soak")
        self.points: list[Point] = []
        self.owners: list[tuple[str, Listener]] = []
        self.done = 0
        self.began = time.time()

    def refer(self) -> None:
        """Run every kind of prompt undisturbed."""
        for kind in self.args.kinds:
            for seed in range(1, self.args.seeds_per_kind + 1):
                self.references[kind, seed] = reference(self.client, kind, seed)
        self.measure()

    def disturb(self) -> None:
        """Run the prompts with everything going on around them."""
        seed, pace = self.args.seed, 0.2
        with ExitStack() as stack:
            self.listeners = [stack.enter_context(Listener(self.client, seed + n)) for n in (0, 1)]
            folder = cache_folder(self.server.base_dir)
            self.vandal = stack.enter_context(CacheVandal(folder, seed, 20.0))
            self.disk = stack.enter_context(DiskFull(self.pid, seed, 5.0))
            self.hammer = stack.enter_context(Hammer(self.server.client(), seed, pace))
            while self.done < self.args.prompts and self._minutes() < self.args.minutes:
                left = self.args.prompts - self.done
                to_next = self.args.measure_every - self.done % self.args.measure_every
                self._burst(min(self.random.randint(1, 12), left, to_next))
                if self.done % self.args.measure_every == 0:
                    self.measure()

    def _minutes(self) -> float:
        return (time.time() - self.began) / 60

    def _burst(self, count: int) -> None:
        """Queue some prompts at once, wait for all of them, and judge them."""
        queued = [self._queue(self.done + number) for number in range(count)]
        entries = [self.client.wait(prompt_id, TIMEOUT_S) for prompt_id, _, _ in queued]
        faults = self.client.get_json("/soak/faults")
        for (prompt_id, kind, soaked), entry in zip(queued, entries, strict=True):
            status, record = self.client.get(f"/headroom/runs/{prompt_id}")
            if status != 200:
                self.judge.problems.append(f"no record of {soaked.tag}: {status} {record}")
                record = {}
            fault = faults.get(soaked.tag, {})
            done = Done(kind, soaked, entry, record, fault, self._disk_was_full(entry))
            known = len(self.judge.problems)
            word = self.judge.judge(done)
            self.done += 1
            seconds = time.time() - self.began
            print(f"{seconds:6.0f} s {self.done:4} {kind}: {word}", *self.judge.problems[known:],
                  sep="\n", file=sys.stderr, flush=True)

    def _queue(self, number: int) -> tuple[str, str, Soaked]:
        kind, seed = self.random.choice(list(self.references))
        if kind in USE_CACHE and self.random.random() < 0.5:
            self.vandal.damage(self.random.randint(1, 4))
        soaked = build(kind, seed, f"soak-{number}", self._fault(self.references[kind, seed]))
        listener = self.listeners[number % 2]
        prompt_id = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        if self.random.random() < 0.08:
            listener.interrupt_after[prompt_id] = self.random.uniform(0.0, 1.5)
        body = {"prompt": soaked.graph.prompt, "client_id": listener.stream.client_id,
                "prompt_id": prompt_id}
        status, answer = self.client.post_json("/prompt", body)
        if status != 200 or answer.get("node_errors"):
            raise RuntimeError(f"The server refused {soaked.tag} ({kind}): {answer}")
        self.owners.append((answer["prompt_id"], listener))
        return answer["prompt_id"], kind, soaked

    def _fault(self, undisturbed: Reference) -> dict[str, Any] | None:
        dice = self.random.random()
        if dice < 0.4 or not undisturbed.allocations:
            return None
        fault = {"at": self.random.randint(1, undisturbed.allocations),
                 "kind": self.random.choice(SHORTAGES), "times": self.random.choice((1, 1, 2, 3))}
        if dice > 0.95:
            fault["times"] = PERSISTENT
        elif dice > 0.9:
            fault |= {"kind": "illegal_access", "times": 1}
        return fault

    def _disk_was_full(self, entry: dict[str, Any]) -> bool:
        times = [message.get("timestamp", 0) / 1000 for _, message in entry["status"]["messages"]]
        since = self.disk.since
        windows = [*self.disk.times, *([(since, time.time())] if since else [])]
        return any(start <= max(times) and min(times) <= end for start, end in windows)

    def measure(self) -> None:
        """Empty the server and note what stays."""
        figures, heap = emptied(self.client), self.client.get_json("/soak/heap")
        rss = rss_bytes(self.pid)
        own = rss if heap["in_use_bytes"] is None else heap["in_use_bytes"]
        self.points.append(Point(self.done, figures["allocated_bytes"], rss,
                                 own - heap["kept_by_reading_bytes"]))

    def result(self) -> dict[str, Any]:
        """The figures, with all problems in words."""
        judge, workers = self.judge, (self.hammer, self.vandal, self.disk, *self.listeners)
        problems = [*judge.problems, *(text for worker in workers for text in worker.problems)]
        queue = self.client.get_json("/queue")
        if queue["queue_running"] or queue["queue_pending"]:
            problems.append(f"the queue is not empty: {queue}")
        events: dict[str, int] = {}
        for listener in self.listeners:
            for kind, count in listener.counts.items():
                events[kind] = events.get(kind, 0) + count
        if judge.counts.get("interrupted", 0) > events.get("interrupts sent", 0):
            problems.append("more prompts were interrupted than interrupts sent")
        unheard = [prompt_id for prompt_id, owner in self.owners if prompt_id not in owner.finished]
        if unheard:
            problems.append(f"the browsers were not told the end of {len(unheard)}: {unheard}")
        memory, flat = memory_figures(self.points)
        return {
            "prompts": self.done, "references": len(self.references),
            "seconds": round(time.time() - self.began), "seed": self.args.seed,
            "outcomes": dict(sorted(judge.counts.items())), "by_kind": judge.by_kind,
            "largest_difference_of_range": judge.largest_difference,
            "http": dict(sorted(self.hammer.counts.items())),
            "embeddings_found_damaged": self.server.log_text().count(FOUND_DAMAGED),
            "damaged_files": dict(sorted(self.vandal.counts.items())),
            "disk_full": {"times": self.disk.counts["times"], "limit_bytes":
                          soak_server.FILE_LIMIT_BYTES if soak_server.CAN_LIMIT else None},
            "events": dict(sorted(events.items())), "memory": memory,
            "problems": problems + flat,
        }


def reference(client: Client, kind: str, seed: int) -> Reference:
    """The results and the number of allocations of an undisturbed run, and the results in tiles."""
    soaked = build(kind, seed, f"reference-{kind}-{seed}")
    kept = _kept(client, soaked)
    allocations = client.get_json("/soak/faults")[soaked.tag]["seen"]
    tiled = _kept(client, build(kind, seed, f"tiles-{kind}-{seed}", tiled=True))
    return Reference(kept, allocations, tiled)


def _kept(client: Client, soaked: Soaked) -> Kept:
    outputs = client.run(soaked.graph.prompt, timeout=TIMEOUT_S)["outputs"]
    return [outputs[node]["text"] for node in soaked.kept]


def emptied(client: Client) -> dict[str, Any]:
    """The figures of the device once models, node cache and history are gone."""
    emptied_times = 0
    while emptied_times < 2:  # the request to forget may come from /headroom/purge at that moment
        graph = Graph()
        add_purge(graph, reset_node_cache=True, free_ram=True, run="every time")
        entry = client.wait(client.queue(graph.prompt), TIMEOUT_S)
        if not was_interrupted(entry):  # a browser's interrupt may come after the prompt it meant
            emptied_times += 1
    client.post_json("/history", {"clear": True})
    deadline = time.monotonic() + 60
    while client.get_json("/simgpu/pending")["free"] and time.monotonic() < deadline:
        time.sleep(0.1)
    return dict(client.post_json("/simgpu/collect", {})[1])


def memory_figures(points: list[Point]) -> tuple[dict[str, Any], list[str]]:
    """The figures of VRAM and RAM, and what is wrong with them.

    In the first half fills what has an end: the last 50 runs and the last 50 prompts that ran out
    of memory, and the source lines that tracebacks have read.
    """
    problems = []
    allocated = sorted({point.allocated_bytes for point in points})
    if len(allocated) > 1:
        problems.append(f"VRAM was not the same whenever the server was emptied: {allocated}")
    figures: dict[str, Any] = {
        "allocated_bytes_when_emptied": allocated,
        "rss_mib": [round(point.rss_bytes / MIB, 1) for point in points],
        "in_use_mib": [round(point.in_use_bytes / MIB, 2) for point in points],
    }
    late = points[len(points) // 2 :]
    if len(late) >= 6:
        line = slope([p.prompts for p in late], [p.in_use_bytes / MIB for p in late])
        figures["in_use_slope_mib_per_100_prompts"] = round(line.per_hundred, 3)
        figures["in_use_slope_uncertainty_mib_per_100_prompts"] = round(line.uncertainty, 3)
        if line.per_hundred > line.uncertainty:
            problems.append(f"RAM grew: {line}")
    return figures, problems

"""The second run of a workflow with our nodes against the same workflow without them.

    python benchmarks/second_run.py --comfyui PATH

SD1.5 class, encode, sample, decode, preview; `ours` adds Encode to CPU (with the disk cache),
OOM Guard and Memory Report, `ours with purge` a Purge VRAM at the end too. In turns on one server:
- a second run with another seed, straight after the first: CPU seconds of the whole server and
  wall-clock seconds, each against stock in the same turn;
- a second run with another seed after the server has forgotten everything, as after a restart:
  the same; the peak shows whether the text encoder was loaded.
"""

import argparse
import statistics
import time
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import Bench, add_gpu, served
from tools.bench_run import alone
from tools.graph import (
    Graph,
    Node,
    add_checkpoint,
    add_guard,
    add_purge,
    add_sampler,
    forget_everything,
)

NAME = "second_run"
REHEARSAL = ("--turns", "1")
CAPACITY_MIB = 8192
KINDS = ("stock", "ours", "ours with purge")
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser, fake_cuda=False)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--size", type=int, default=64, help="pixels; more of it hides our share")


def run(args: argparse.Namespace) -> Json:
    """Return medians over the turns, and each kind against stock."""
    with served(args, CAPACITY_MIB, files=[models.DEMO_CHECKPOINT],
                packs=("headroom_probe",)) as server:
        bench = SecondRuns(server, args.size)
        return {
            "turns": args.turns, "size": args.size,
            "another_seed": bench.compared(args.turns, forget=False),
            "another_seed_after_a_restart": bench.compared(args.turns, forget=True),
        }


class SecondRuns:
    """The measurements on one running server."""

    def __init__(self, server: Bench, size: int) -> None:
        self.server, self.size = server, size
        self._seed = 0

    def compared(self, turns: int, forget: bool) -> Json:
        found: dict[str, list[Json]] = {kind: [] for kind in KINDS}
        for turn in range(turns):
            for kind in KINDS if turn % 2 else reversed(KINDS):
                found[kind].append(self.second(kind, forget))
        return {kind: self.against(found[kind], found["stock"]) for kind in KINDS}

    def second(self, kind: str, forget: bool) -> Json:
        """The seconds of a second run, and its peak."""
        forget_everything(self.server.client)
        self.server.run(self.graph(kind, self.seed()))
        if forget:
            forget_everything(self.server.client)
        self.server.collect()
        self.server.reset_peaks()
        graph = self.graph(kind, self.seed())
        cpu, wall = self.server.cpu_s(), time.perf_counter()
        self.server.run(graph)
        wall = time.perf_counter() - wall
        cpu = self.server.cpu_s() - cpu
        return {"cpu_s": cpu, "wall_s": wall,
                "peak_reserved_bytes": self.server.collect().peak_reserved_bytes}

    @staticmethod
    def against(own: list[Json], stock: list[Json]) -> Json:
        def ratio(name: str) -> float:
            pairs = zip(own, stock, strict=True)
            return round(statistics.median(a[name] / b[name] for a, b in pairs), 4)

        return {
            "cpu_s": round(statistics.median(run["cpu_s"] for run in own), 3),
            "wall_s": round(statistics.median(run["wall_s"] for run in own), 3),
            "cpu_of_stock": ratio("cpu_s"), "wall_of_stock": ratio("wall_s"),
            "peak_reserved_bytes": own[-1]["peak_reserved_bytes"],
        }

    def graph(self, kind: str, seed: int) -> Graph:
        graph = Graph()
        checkpoint = add_checkpoint(graph, models.DEMO_CHECKPOINT)
        parts = [checkpoint[output] for output in range(3)]
        if kind != "stock":
            parts[0] = add_guard(graph, parts[0])[0]
            parts[2] = add_guard(graph, parts[2])[0]
        latent = add_sampler(graph, parts[0], parts[1], seed=seed, size=self.size)
        if kind != "stock":
            self._encode_with_ours(graph, latent)
        image = graph.add("VAEDecode", samples=latent, vae=parts[2])
        last: Node = graph.add("PreviewImage", images=image)
        if kind != "stock":
            last = graph.add("HeadroomMemoryReport", value=image)
        if kind == "ours with purge":
            add_purge(graph, value=last[0])
        return graph

    @staticmethod
    def _encode_with_ours(graph: Graph, latent: Node) -> None:
        text = graph.prompt[latent.id]["inputs"]["positive"][0]
        node = graph.prompt[text]
        node["class_type"] = "HeadroomEncodeToCPU"
        node["inputs"] |= {"split": "one prompt", "release_encoder": True, "cache": "disk"}

    def seed(self) -> int:
        self._seed += 1
        return self._seed


if __name__ == "__main__":
    alone()

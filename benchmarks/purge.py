"""What Purge VRAM leaves on the GPU, against the floor and against ComfyUI's own `POST /free`.

    python benchmarks/purge.py --comfyui PATH

A prompt loads and uses a checkpoint (encode, sample, decode) while the node cache keeps some
tensors on the GPU that something still needs, as some packs' outputs are: they are the floor, in
the allocator's steps of 512 bytes (a real GPU adds the workspace that cuBLAS keeps in its cache,
8 to 32 MiB, however much is unloaded). Measured on the same server, each after a run of its own:
- the bytes left after Purge VRAM at the end, after `POST /free` with `unload_models`, and after
  nothing;
- the peak of a prompt over two checkpoints, with Purge VRAM between them, and without it while a
  `POST /free` that came in the middle waits for the prompt's end.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import Bench, add_gpu, served
from tools.bench_run import alone
from tools.client import node_texts
from tools.device import TIMEOUT_S
from tools.graph import Graph, Node, add_checkpoint, add_purge, add_sampler, forget_everything

NAME = "purge"
REHEARSAL = ()
CAPACITY_MIB = 8192
FILES = (models.DEMO_CHECKPOINT, models.TEST_CHECKPOINT)
TRIES = 10
FIGURES = ("allocated_bytes", "reserved_bytes")
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--size", type=int, default=256, help="pixels")
    parser.add_argument("--held-mib", type=int, default=64, help="what the node cache keeps there")
    parser.add_argument("--held-small", type=int, default=16, help="and tensors of 1 KiB")


def run(args: argparse.Namespace) -> Json:
    """Return the figures in bytes; none of them is a time."""
    with served(args, CAPACITY_MIB, files=FILES, packs=("headroom_bench",)) as server:
        bench = PurgeBench(server, args)
        ways = {"nothing": bench.left(lambda: None),
                "purge": bench.left(None),
                "free_models": bench.left(bench.free_models)}
        peaks = {"with_purge_between": bench.peak(True), "without": bench.peak(False)}
        return {"left": ways, "two_models": peaks}


class PurgeBench:
    """The measurements on one running server."""

    def __init__(self, device: Bench, args: argparse.Namespace) -> None:
        self.device, self.client, self.args = device, device.client, args

    def left(self, after: Callable[[], None] | None) -> Json:
        """The bytes left; `after` runs when the prompt has ended, None puts a purge into it."""
        self.start_empty()
        graph = Graph()
        held = graph.add("BenchHold", large_mib=self.args.held_mib, small=self.args.held_small)
        known = graph.add("BenchHeld", held=held)
        image = self.used(graph, FILES[0])
        graph.add("PreviewImage", images=image)
        if after is None:
            add_purge(graph, value=graph.add("BenchBoth", a=image, b=known))
        answer = self.device.run(graph)
        if after is not None:
            after()
        floor = json.loads(node_texts(answer)[known.id])["bytes"]
        figures = vars(self.device.collect())
        found: Json = {name: figures[name] for name in FIGURES}
        return {**found, "floor_bytes": floor,
                "allocated_of_floor": round(figures["allocated_bytes"] / floor, 5)}

    def peak(self, purge: bool) -> Json:
        """The peaks of a prompt over two checkpoints."""
        self.start_empty()
        graph = Graph()
        first: Any = self.used(graph, FILES[0])
        if purge:
            first = add_purge(graph, value=first)
        checkpoint = add_checkpoint(graph, FILES[1])
        second = self.encoded(graph, checkpoint, first)
        graph.add("PreviewImage", images=second)
        prompt_id = self.client.queue(graph.prompt)
        if not purge:
            self.client.free(unload_models=True, free_memory=False)
        self.client.wait(prompt_id, TIMEOUT_S)
        figures = vars(self.device.collect())
        return {name: figures[f"peak_{name}"] for name in FIGURES}

    def encoded(self, graph: Graph, checkpoint: Node, image: Any) -> Node:
        """The first model's picture, sampled again by the second one."""
        latent = graph.add("VAEEncode", pixels=image, vae=checkpoint[2])
        sampled = add_sampler(graph, checkpoint[0], checkpoint[1], denoise=0.5)
        graph.prompt[sampled.id]["inputs"]["latent_image"] = latent[0]
        return graph.add("VAEDecode", samples=sampled, vae=checkpoint[2])

    def used(self, graph: Graph, file: str) -> Node:
        """A picture that every part of a checkpoint took part in."""
        checkpoint = add_checkpoint(graph, file)
        latent = add_sampler(graph, checkpoint[0], checkpoint[1], size=self.args.size)
        return graph.add("VAEDecode", samples=latent, vae=checkpoint[2])

    def start_empty(self) -> None:
        forget_everything(self.client)
        self.device.collect()
        self.device.reset_peaks()

    def free_models(self) -> None:
        """`POST /free`, and wait until ComfyUI has acted on it; what it then frees takes a while.

        It misses a request that comes before the worker waits for prompts again: ask again then.
        Raises RuntimeError when nothing came of it: there is no figure to report then.
        """
        before = self.device.collect().allocated_bytes
        for _ in range(TRIES):
            self.client.free(unload_models=True, free_memory=False)
            time.sleep(2)
            acted = not self.device.free_is_pending()
            if acted and self.device.collect().allocated_bytes < before / 2:
                time.sleep(2)
                return
        raise RuntimeError(f"POST /free had no effect on the server in {TRIES} tries.")


if __name__ == "__main__":
    alone()

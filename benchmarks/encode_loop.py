"""A thousand different prompts through Encode to CPU on a simulated GPU: what stays behind.

    python benchmarks/encode_loop.py --comfyui PATH

Starts one ComfyUI on the simulated GPU, whose memory figures are exact, or with `--gpu` on the
real one, and measures
- the bytes on the GPU after the first and after the last prompt;
- the growth of the server's RSS, against the bytes of the embeddings that it holds then (without
  free heap pages: the simulated GPU keeps its tensors on the heap of the same process);
- the throughput against ComfyUI's CLIPTextEncode, in turns within one run, in CPU time of the whole
  server.
The text encoder is CLIP-L in its full width with 2 of its 12 layers and random weights, so our
share of the time is larger here than with any real encoder.
"""

import argparse
import json
import statistics
from typing import Any

import on_path  # noqa: F401

from tools.bench_device import Bench, add_gpu, served
from tools.bench_run import alone
from tools.client import node_texts
from tools.graph import Graph, Node

NAME = "encode_loop"
REHEARSAL = ("--prompts", "5", "--turns", "2", "--per-turn", "3")
CAPACITY_MIB = 4096
ENCODER = "sd15_wide"
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=6, help="of the throughput comparison")
    parser.add_argument("--per-turn", type=int, default=100, help="prompts in each turn")


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return the figures; bytes are exact, RSS and time are as measured."""
    with served(args, CAPACITY_MIB, packs=("headroom_probe", "headroom_probe_encoders"),
                env={"OMP_NUM_THREADS": "1"}) as server:
        bench = EncodeBench(server)
        return {
            "encoder": "CLIP-L, full width, 2 layers, random weights",
            "growth": bench.growth(args.prompts),
            "throughput": bench.throughput(args.turns, args.per_turn),
        }


class EncodeBench:
    """The measurements on one running server."""

    def __init__(self, server: Bench) -> None:
        self.server, self.client = server, server.client
        self._next = 0

    def growth(self, prompts: int) -> dict[str, object]:
        self.encode(1)
        first, rss_before = self.server.collect(), self.used_rss()
        told, _ = self.encode(prompts)
        last, grown = self.server.collect(), self.used_rss() - rss_before
        embeddings = sum(item["bytes"] for item in told)
        return {
            "prompts": prompts,
            "different_embeddings": len({item["digest"] for item in told}),
            "gpu_bytes_of_growth": last.allocated_bytes - first.allocated_bytes,
            "gpu_reserved_bytes_of_growth": last.reserved_bytes - first.reserved_bytes,
            "embedding_bytes": embeddings,
            "rss_growth_bytes": grown,
            "rss_growth_per_embedding_byte": round(grown / embeddings, 4),
        }

    def throughput(self, turns: int, per_turn: int) -> dict[str, object]:
        self.encode(per_turn)
        self.core(per_turn)
        spent: dict[str, list[float]] = {"encode": [], "core": []}
        for turn in range(turns):
            for name in spent if turn % 2 == 0 else reversed(spent):
                spent[name].append(getattr(self, name)(per_turn)[1])
        ratio = statistics.median(c / o for o, c in zip(*spent.values(), strict=True))
        return {
            "turns": turns, "prompts_per_turn": per_turn,
            "cpu_throughput_ratio": round(ratio, 4),
        }

    def encode(self, count: int) -> tuple[list[Json], float]:
        """Our node over `count` prompts that were never used before."""
        graph = Graph()
        clip = graph.add("ProbeEncoder", kind=ENCODER, seed=0)
        return self._run(graph, graph.add(
            "HeadroomEncodeToCPU", clip=clip, text="\n".join(self._prompts(count)),
            split="one prompt per line", release_encoder=False, cache="off"))

    def core(self, count: int) -> tuple[list[Json], float]:
        """ComfyUI's node, run by ComfyUI for each text of a list."""
        graph = Graph()
        texts = graph.add("ProbeTexts", lines="\n".join(self._prompts(count)))
        clip = graph.add("ProbeEncoder", kind=ENCODER, seed=0)
        return self._run(graph, graph.add("CLIPTextEncode", clip=clip, text=texts))

    def _run(self, graph: Graph, encoded: Node) -> tuple[list[Json], float]:
        """What the conditionings are, and the CPU seconds of the run."""
        shown = graph.add("ProbeConditioning", a=encoded)
        before = self.server.cpu_s()
        entry = self.server.run(graph)
        spent = self.server.cpu_s() - before
        return [json.loads(line) for line in node_texts(entry)[shown.id].splitlines()], spent

    def _prompts(self, count: int) -> list[str]:
        first, self._next = self._next, self._next + count
        return [f"prompt number {number}" for number in range(first, self._next)]

    def used_rss(self) -> int:
        """RSS without the heap's free pages, which the C library keeps for its next use.

        They are most of what moves: the simulated GPU keeps its tensors on that heap.
        """
        asked = {"unload": "no models", "free_ram": True}
        self.client.post_when_idle("/headroom/purge", asked)
        return int(self.server.process.memory_info().rss)


if __name__ == "__main__":
    alone()

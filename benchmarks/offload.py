"""How fast Offload Model takes a model off the GPU and brings it back, against plain copies.

    python benchmarks/offload.py --comfyui PATH [--gib 10] [--turns 16]

A model of plain bfloat16 layers is loaded, offloaded to the CPU, loaded again, offloaded to disk
and loaded again. In the same turn the plain way does the same work with the same bytes, after ours
or before it by turns: `tensor.to()` for each layer, in the place of the one before, then
`soft_empty_cache()`; to disk each tensor is moved to the CPU, all are written to a file of the same
folder until it is on the disk, and their RAM is given back; from there each is read and moved to
the device. On a real GPU one pinned buffer is copied both ways too, as fast as the bus goes.
Both have moved the model there and back once before, untimed, so that new memory of the process
costs neither of them time; and both find what they wrote in the page cache. Offloading is timed as
the whole node, with its report; loading as ComfyUI's own loading. A virtual machine may get new
pages slowly: one turn may take three times as long as the next, on either side. So there are many
turns. They count in pairs, each side is first in one turn of a pair, and the ratio is the median of
the pairs.
"""

import argparse
import json
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools.bench_device import Bench, add_gpu, served
from tools.bench_run import alone
from tools.client import node_texts
from tools.graph import Graph, Node, add_offload, forget_everything

NAME = "offload"
REHEARSAL = ("--gib", "0.1", "--turns", "2")
FILE = "headroom_bench.safetensors"
SIDE = 4096
LAYER_BYTES = SIDE * SIDE * 2
# What is timed on both sides, and what is timed on the plain side only.
WAYS = {"to CPU": "to_cpu_s", "back from CPU": "to_device_s", "to disk": "to_disk_s",
        "back from disk": "from_disk_s"}
BESIDES = ("write_s", "sync_s", "pinned_to_device_s", "pinned_to_cpu_s")
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser, fake_cuda=False)
    parser.add_argument("--gib", type=float, help="of the model; default 0.25, on a real GPU 10")
    parser.add_argument("--turns", type=int, help="an even number; default 16, on a real GPU 6")


def run(args: argparse.Namespace) -> Json:
    """Return seconds as medians over the turns, ours and the plain way's, and their ratios."""
    gib, count = args.gib or (10 if args.gpu else 0.25), args.turns or (6 if args.gpu else 16)
    layers = max(int(gib * 2**30) // LAYER_BYTES, 1)
    with served(args, int(gib * 2048 + 2048), packs=("headroom_bench",),
                prepare=partial(write_model, layers=layers)) as server:
        turns = [turn(server, number, layers) for number in range(count)]
    return {"bytes": layers * LAYER_BYTES, "turns": count, **summary(turns)}


def write_model(base: Path, layers: int) -> None:
    """A file of that many layers with random weights, where ComfyUI looks for it."""
    import torch
    from safetensors.torch import save_file

    folder = base / "models" / "diffusion_models"
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(1)
    weights = {
        f"layer{index:04d}.weight":
            torch.randint(-2**13, 2**13, (SIDE, SIDE), dtype=torch.int16, generator=generator)
            .to(torch.bfloat16)
        for index in range(layers)
    }
    save_file(weights, str(folder / FILE))


def turn(server: Bench, number: int, layers: int) -> dict[str, Json]:
    """The seconds of both sides; which comes first changes with the turn."""
    found = {}
    for side in (plain, ours) if number % 2 else (ours, plain):
        forget_everything(server.client)
        found[side.__name__] = side(server, number, layers)
    return found


def plain(server: Bench, number: int, layers: int) -> Json:
    graph = Graph()
    copy = graph.add("BenchCopy", unet_name=FILE, turn=number)
    return dict(server.told(graph, copy))


def ours(server: Bench, number: int, layers: int) -> Json:
    graph = Graph()
    model = graph.add("BenchModel", unet_name=FILE, turn=number)
    first = graph.add("BenchLoad", model=model)
    to_cpu = add_offload(graph, model=first, to="CPU")
    to_device = graph.add("BenchLoad", model=to_cpu)
    to_disk = add_offload(graph, model=to_device, to="disk")
    from_disk = graph.add("BenchLoad", model=to_disk)
    entry = server.run(graph)
    texts, by_node = node_texts(entry), server.seconds(entry)

    def loaded(node: Node) -> float:
        answer, expected = json.loads(texts[node.id]), layers * LAYER_BYTES
        assert answer["bytes"] == expected, f"{answer['bytes']} of {expected} bytes were loaded"
        return float(answer["seconds"])

    return {"to_cpu_s": by_node[to_cpu.id], "to_device_s": loaded(to_device),
            "to_disk_s": by_node[to_disk.id], "from_disk_s": loaded(from_disk)}


def summary(turns: list[dict[str, Json]]) -> Json:
    """Median seconds of each way, and the median of plain / ours over pairs of turns."""
    ways = {}
    for name, key in WAYS.items():
        own, other = ([one[side][key] for one in turns] for side in ("ours", "plain"))
        ways[name] = {
            "seconds": _median(own), "plain_seconds": _median(other),
            "speed_of_plain": _median(
                [p / o for p, o in zip(_pairs(other), _pairs(own), strict=True)]),
        }
    seconds = {key: _median([one["plain"][key] for one in turns]) for key in BESIDES}
    return {"ways": ways, "seconds": seconds}


def _pairs(seconds: list[float]) -> list[float]:
    return [sum(pair) for pair in zip(seconds[::2], seconds[1::2], strict=True)]


def _median(values: list[Any]) -> float | None:
    return None if None in values else round(statistics.median(values), 4)


if __name__ == "__main__":
    alone()

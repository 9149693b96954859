"""How fast Offload Model takes a model off the GPU and brings it back, in GB/s.

    python benchmarks/offload.py --comfyui PATH [--gib 10]

A model of plain bfloat16 layers is loaded, offloaded to the CPU and loaded again, in turns; then
offloaded to disk and loaded again, once with weights that are those of its file (a private clone of
it where the file system shares blocks, else a private file that is written) and once with weights
that are nowhere on disk (they are always written to a private file).
Beside it, in the same run, the plain way of moving the same bytes: `tensor.to()` for each layer, in
the place of the one before, then `soft_empty_cache()` (there and back once untimed, so that it does
not pay for memory that the process has never touched); one pinned buffer copied both ways as fast
as the bus goes (real GPU); reading the file; writing a file until it is on the disk, as ours does.
Files are in the page cache after the first read, for both sides. Offloading is timed as the whole
node, with its report; loading as ComfyUI's own loading. Before each turn the machine's free memory
is used once and given back: a virtual machine is slow (2 s a GiB) to get pages that its host has
not given it yet, or has taken back, and which side gets them would be chance.
"""

import argparse
import json
import mmap
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import on_path  # noqa: F401
import psutil

from tools.bench_device import Bench, add_gpu, served
from tools.bench_run import alone
from tools.client import node_texts
from tools.graph import Graph, Node, add_offload, forget_everything

NAME = "offload"
REHEARSAL = ("--gib", "0.1", "--turns", "1")
FILE = "headroom_bench.safetensors"
SIDE = 4096
LAYER_BYTES = SIDE * SIDE * 2
FREE_TOUCHED = 0.9
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--gib", type=float, help="of the model; default 1, on a real GPU 10")
    parser.add_argument("--turns", type=int, default=3)


def run(args: argparse.Namespace) -> Json:
    """Return seconds as medians over the turns, ours and the plain way's, and their ratios."""
    gib = args.gib or (10 if args.gpu else 1)
    layers = max(int(gib * 2**30) // LAYER_BYTES, 1)
    with served(args, int(gib * 2048 + 2048), packs=("headroom_bench",),
                prepare=partial(write_model, layers=layers)) as server:
        bench = OffloadBench(server, layers)
        turns = [bench.turn(number) for number in range(args.turns)]
    return {"bytes": layers * LAYER_BYTES, "turns": args.turns, **summary(turns)}


def touch_free_memory() -> None:
    """Use most of the machine's free memory once and give it back."""
    nbytes = int(psutil.virtual_memory().free * FREE_TOUCHED)
    with mmap.mmap(-1, nbytes) as memory:
        for page in range(0, nbytes, mmap.PAGESIZE):
            memory[page] = 1


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


class OffloadBench:
    """The measurements on one running server."""

    def __init__(self, server: Bench, layers: int) -> None:
        self.server, self.layers = server, layers

    def turn(self, number: int) -> dict[str, float | None]:
        """Seconds of every way, each model new in every turn."""
        touch_free_memory()
        found = self.plain()
        for as_in_file in (True, False):
            kind = "own_file" if as_in_file else "scratch"
            found |= {f"{kind}_{name}": s for name, s in self.ours(as_in_file, number).items()}
        return found

    def plain(self) -> dict[str, float | None]:
        graph = Graph()
        file = graph.add("BenchFile", unet_name=FILE)
        copy = graph.add("BenchCopy", tensors=self.layers, each_bytes=LAYER_BYTES, after=file)
        texts = node_texts(self.server.run(graph))
        answers = {**json.loads(texts[file.id]), **json.loads(texts[copy.id])}
        return {name: value for name, value in answers.items() if name != "bytes"}

    def ours(self, as_in_file: bool, turn: int) -> dict[str, float]:
        """Load, offload to CPU, load, offload to disk, load: the seconds of each."""
        forget_everything(self.server.client)
        graph = Graph()
        model = graph.add("BenchModel", unet_name=FILE, as_in_file=as_in_file, turn=turn)
        steps: dict[str, Node] = {"load_first": graph.add("BenchLoad", model=model)}
        for to in ("CPU", "disk"):
            before = list(steps.values())[-1]
            steps[f"to_{to.lower()}"] = add_offload(graph, model=before, to=to)
            steps[f"from_{to.lower()}"] = graph.add("BenchLoad", model=steps[f"to_{to.lower()}"])
        entry = self.server.run(graph)
        texts, by_node = node_texts(entry), self.server.seconds(entry)
        return {
            name: float(by_node[node.id]) if name.startswith("to_")
            else self._loaded(json.loads(texts[node.id]))
            for name, node in steps.items()
        }

    def _loaded(self, answer: Json) -> float:
        expected = self.layers * LAYER_BYTES
        assert answer["bytes"] == expected, f"{answer['bytes']} of {expected} bytes were loaded"
        return float(answer["seconds"])


# Ours, and the plain ways that move the same bytes one after the other.
PAIRS = {
    "to CPU": ("own_file_to_cpu", ("to_cpu_s",)),
    "back from CPU": ("own_file_from_cpu", ("to_device_s",)),
    "to disk, weights as in a file": ("own_file_to_disk", ("to_cpu_s", "write_s", "sync_s")),
    "back from disk, as in a file": ("own_file_from_disk", ("read_s", "to_device_s")),
    "to disk, weights of no file": ("scratch_to_disk", ("to_cpu_s", "write_s", "sync_s")),
    "back from disk, of no file": ("scratch_from_disk", ("read_s", "to_device_s")),
}


def summary(turns: list[dict[str, float | None]]) -> Json:
    """Median seconds of each way, and ours against the plain way within each turn."""
    medians = {name: _median([turn[name] for turn in turns]) for name in turns[0]}
    pairs = {}
    for name, (ours, plain) in PAIRS.items():
        own = [float(turn[ours] or 0) for turn in turns]
        other = [sum(float(turn[part] or 0) for part in plain) for turn in turns]
        speeds = [p / o for o, p in zip(own, other, strict=True)]
        pairs[name] = {
            "seconds": _median(own), "plain_seconds": _median(other),
            "plain_is": [part.removesuffix("_s") for part in plain],
            "speed_of_plain": round(statistics.median(speeds), 4),
        }
    return {"ways": pairs, "seconds": medians}


def _median(values: list[Any]) -> float | None:
    return None if None in values else round(statistics.median(values), 4)


if __name__ == "__main__":
    alone()

"""The smallest GPU on which SD1.5, SDXL, Flux and Wan classes sample, stock against OOM Guard.

    python benchmarks/capacity_classes.py --comfyui PATH          on the simulated GPU
    python benchmarks/capacity_classes.py --comfyui PATH --gpu    on this machine's own

Diffusion models at their real layer sizes and with all their blocks, two steps each at their usual
picture size in a batch, every try on an empty device.

On the simulated GPU the smallest capacity is searched for by narrowing an interval to 4 %. All
allocations take place, but the arithmetic is left out and weights are zeros that take no RAM (a
test shows that the bytes are the same), so that the largest model runs in some GiB. Capacity there
is all there is: no CUDA context, no library workspaces, no dynamic VRAM.

On a real GPU weights are random numbers made on the device, and the capacities are those of 8, 12,
16, 24 and 32 GiB that it has, tried from small to large until one completes: torch's limit of the
process (`set_per_process_memory_fraction`), with another process holding the rest, so that ComfyUI
sees what it would see on such a card.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

import on_path  # noqa: F401

from tools.bench_device import add_gpu, narrowed, served
from tools.bench_run import alone
from tools.device import Device
from tools.errors import NotHere
from tools.graph import Graph, Node, add_guard, add_ksampler, add_purge, forget_everything

NAME = "capacity_classes"
REHEARSAL = ("--classes", "SD1.5", "--divide", "8", "--batch", "2", "--gib", "0.05", "1")
BATCHES = {"SD1.5": 64, "SDXL": 16, "Flux": 8, "Wan": 2}
# Of the picture in pixels; the last is the number of a video's frames.
PICTURES = {"SD1.5": (512, 512, 1), "SDXL": (1024, 1024, 1), "Flux": (1024, 1024, 1),
            "Wan": (832, 480, 81)}
WAYS = ("stock", "guarded")
ROOM_GIB = 80
FIRST_MIB = 128  # where the search begins
# ComfyUI makes a model on the device where that has more free memory than the CPU; on such a
# small one it never does, whatever the RAM of this machine.
MAKING_MIB = 256
FINENESS = 1.04
# Above this size glibc returns freed memory to the system and gets new pages, which take RAM only
# when they are written. Otherwise the simulated weights would take RAM.
LAZY_RAM = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--classes", nargs="+", choices=list(BATCHES), default=list(BATCHES))
    parser.add_argument("--gib", nargs="+", type=float, default=[8, 12, 16, 24, 32],
                        help="the capacities tried with --gpu")
    parser.add_argument("--batch", type=int, help="default: " + str(BATCHES))
    parser.add_argument("--divide", type=int, default=1, help="each side of the picture by this")


def run(args: argparse.Namespace) -> Json:
    """Return the smallest capacity of each class, plain and guarded.

    On a real GPU in GiB, None if none of those tried was enough; on the simulated one in MiB.
    """
    packs = ["headroom_bench"] + ["headroom_shapes_only"] * shapes_only(args)
    env = LAZY_RAM if shapes_only(args) else {}
    with served(args, ROOM_GIB * 1024, packs=packs, env=env) as server:
        bench = ClassBench(server, args)
        return {"steps": 2, **({"gib": bench.gib()} if args.gpu else {}),
                "classes": {kind: bench.smallest(kind) for kind in args.classes}}


def shapes_only(args: argparse.Namespace) -> bool:
    """Whether the arithmetic is left out."""
    return not (args.gpu or args.fake_cuda)


class ClassBench:
    """The measurements on one running server."""

    def __init__(self, device: Device, args: argparse.Namespace) -> None:
        self.device = device
        self.args = args

    def smallest(self, kind: str) -> Json:
        forget_everything(self.device.client)
        about = {"batch": self.batch(kind),
                 "picture": [side // self.args.divide or 1 for side in PICTURES[kind]]}
        if self.args.gpu:
            return {**about, "smallest_gib": self.of_those_given(kind)}
        needs = {way: self.searched(kind, way) for way in WAYS}
        return {**about, "smallest_mib": needs,
                "guard_of_stock": round(needs["guarded"] / needs["stock"], 3)}

    def gib(self) -> list[float]:
        """The capacities to try: those given that this GPU can show."""
        total_gib = self.device.total_mib() / 1024
        found = sorted(gib for gib in self.args.gib if gib < total_gib)
        if not found:
            raise NotHere(f"this GPU has {total_gib:.1f} GiB, less than any capacity to be tried")
        return found

    def of_those_given(self, kind: str) -> Json:
        """The smallest of the given capacities that completes, in GiB, for each way."""
        found: Json = dict.fromkeys(WAYS)
        for gib in self.gib():
            for way in [name for name, need in found.items() if need is None]:
                if self.completes(kind, way, gib * 1024):
                    found[way] = gib
        return found

    def searched(self, kind: str, way: str) -> int:
        """The smallest capacity that completes, in MiB."""
        def completes(mib: int) -> bool:
            done = self.completes(kind, way, mib)
            print(f"  {kind}, {way}: {mib} MiB, {done}", file=sys.stderr, flush=True)
            return done

        return least(completes)

    def completes(self, kind: str, way: str, mib: float) -> bool:
        """Sample on an empty device of that capacity; False when memory ran out."""
        self.make(kind)
        return self.device.attempt_as_it_is(self.sampling(kind, way), mib) is None

    def make(self, kind: str) -> None:
        """Make the model once, and leave the device empty."""
        self.device.set_capacity(ROOM_GIB * 1024 if self.args.gpu else MAKING_MIB)
        graph = Graph()
        add_purge(graph, value=self.parts(graph, kind), run="every time")
        self.device.run(graph)
        self.device.collect()

    def sampling(self, kind: str, way: str) -> Json:
        graph = Graph()
        parts = self.parts(graph, kind)
        model: Any = parts[0]
        if way == "guarded":
            model = add_guard(graph, model)
        latent = add_ksampler(graph, model, parts[1], parts[1], parts[2], scheduler="simple",
                              cfg=1.0 if kind == "Flux" else 4.0)
        graph.add("PreviewAny", source=latent)
        return graph.prompt

    def parts(self, graph: Graph, kind: str) -> Node:
        """The model with its conditioning and latent; the same node in every prompt, so cached."""
        return graph.add("BenchClass", kind=kind, batch=self.batch(kind),
                         divide=self.args.divide, zeros=shapes_only(self.args))

    def batch(self, kind: str) -> int:
        return int(self.args.batch or BATCHES[kind])


def least(completes: Callable[[int], bool]) -> int:
    """Return the smallest capacity in MiB that is enough, or up to FINENESS times as much."""
    return narrowed(
        completes, *between_doublings(completes),
        near=lambda low, high: high - low <= 1 or high <= low * FINENESS,
        # Nearer to the low end: what fails fails soon, what completes samples to the end.
        middle=lambda low, high: min(max(round(low ** (2 / 3) * high ** (1 / 3)), low + 1),
                                     high - 1),
    )


def between_doublings(completes: Callable[[int], bool]) -> tuple[int, int]:
    """Return a capacity in MiB that is too small, and one twice as large that is enough."""
    mib = FIRST_MIB
    if completes(mib):
        while mib > 1 and completes(mib // 2):
            mib //= 2
        return mib // 2, mib
    while mib < ROOM_GIB * 1024:
        mib *= 2
        if completes(mib):
            return mib // 2, mib
    raise RuntimeError(f"a GPU of {mib} MiB does not suffice")


if __name__ == "__main__":
    alone()

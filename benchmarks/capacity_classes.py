"""The smallest GPU on which SD1.5, SDXL, Flux and Wan classes sample, stock against OOM Guard.

    python benchmarks/capacity_classes.py --comfyui PATH --gpu

Diffusion models at their real layer sizes with random bfloat16 weights made on the device, two
steps each at their usual picture size in a batch. The capacities are 8, 12, 16, 24 and 32 GiB of a
real GPU: torch's limit of the process (`set_per_process_memory_fraction`), with another process
holding the rest, so that ComfyUI sees what it would see on such a card. At each the plain and the
guarded model are tried, from small to large, until one completes.
The simulated GPU has no room for these models; the SD1.5 class is measured there by
`oom_capacity.py`. `--depth` and `--divide` below try the code itself on a small machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

NAME = "capacity_classes"
ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from devtools.bench_device import Device, add_gpu, serve  # noqa: E402
from devtools.bench_run import alone  # noqa: E402
from devtools.client import PromptFailed  # noqa: E402
from devtools.errors import NotHere  # noqa: E402
from devtools.graph import Graph, forget_everything  # noqa: E402

BATCHES = {"SD1.5": 64, "SDXL": 16, "Flux": 8, "Wan": 2}
GUARD = {"free_other_models": True, "offload_weights": True, "split_batch": True,
         "tile_vae": True, "max_attempts": 8}
ROOM_GIB = 80
TIMEOUT = 3600.0
OUT_OF_MEMORY = ("OutOfMemoryError", "OomGuardError")
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--classes", nargs="+", choices=list(BATCHES), default=list(BATCHES))
    parser.add_argument("--gib", nargs="+", type=float, default=[8, 12, 16, 24, 32])
    parser.add_argument("--batch", type=int, help="default: " + str(BATCHES))
    parser.add_argument("--depth", type=float, default=1.0, help="share of Flux's and Wan's blocks")
    parser.add_argument("--divide", type=int, default=1, help="each side of the picture by this")


def run(args: argparse.Namespace) -> Json:
    """Return the smallest capacity in GiB for each class, plain and guarded; None for none."""
    if not args.gpu and args.divide == 1:
        raise NotHere("models of these sizes need a real GPU (--gpu)")
    with tempfile.TemporaryDirectory() as base:
        room_mib = int(max(args.gib) * 2048)
        server = serve(args, base, room_mib, packs=("headroom_bench",))
        with server:
            bench = ClassBench(Device(server.client(), args.gpu), args)
            return {"steps": 2, "gib": args.gib, "depth": args.depth,
                    "classes": {kind: bench.smallest(kind) for kind in args.classes}}


class ClassBench:
    """The measurements on one running server."""

    def __init__(self, device: Device, args: argparse.Namespace) -> None:
        self.device = device
        self.client = device.client
        self.args = args

    def smallest(self, kind: str) -> Json:
        batch = self.args.batch or BATCHES[kind]
        found: Json = {"stock": None, "guarded": None}
        for gib in sorted(self.args.gib):
            for way in [name for name, need in found.items() if need is None]:
                if self.completes(kind, batch, way == "guarded", gib):
                    found[way] = gib
        divide = "" if self.args.divide == 1 else f", sides by {self.args.divide}"
        return {"smallest_gib": found, "size": f"batch {batch}{divide}"}

    def completes(self, kind: str, batch: int, guarded: bool, gib: float) -> bool:
        """Sample on an empty device of that capacity; False when memory ran out."""
        self.device.set_capacity(ROOM_GIB * 1024)
        forget_everything(self.client)
        self.device.collect()
        self.device.set_capacity(gib * 1024)
        try:
            self.client.run(self.prompt(kind, batch, guarded), timeout=TIMEOUT)
        except PromptFailed as error:
            if not error.exception_type.endswith(OUT_OF_MEMORY):
                raise
            return False
        return True

    def prompt(self, kind: str, batch: int, guarded: bool) -> Json:
        graph = Graph()
        parts = graph.add("BenchClass", kind=kind, depth=self.args.depth, batch=batch,
                          divide=self.args.divide)
        model: Any = parts[0]
        if guarded:
            model = graph.add("HeadroomOOMGuard", model=model, **GUARD)
        latent = graph.add(
            "KSampler", model=model, positive=parts[1], negative=parts[1], latent_image=parts[2],
            seed=1, steps=2, cfg=1.0 if kind == "Flux" else 4.0, sampler_name="euler",
            scheduler="simple", denoise=1.0,
        )
        graph.add("PreviewAny", source=latent)
        return graph.prompt


if __name__ == "__main__":
    alone(sys.modules[__name__])

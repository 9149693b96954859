"""Mixed picture sizes, from small to large and from large to small: memory and recompilations.

    python benchmarks/mixed_sizes.py --comfyui PATH

In a real ComfyUI on PyTorch's own allocator (`--gpu` on a real GPU, `--fake-cuda` without one) one
prompt runs Size Sorter, a sampler step and a decode for each of the sizes that ran out of memory in
the published case (1024x1024, 1024x1152, 1360x1536; here divided by `--divide`), with both orders,
with blocks as they are by default, with `expandable_segments` and with cudaMallocAsync:
- the peak of reserved bytes and the allocator's retries on a device with room;
- the smallest capacity, to `--step-mib`, at which the prompt still completes, and the retries at
  the larger one of the two orders.
As in the published script the weights stay on the GPU (`--highvram`).
Without ComfyUI, on the CPU: how many graphs torch.compile makes for sixteen published sizes, mixed,
sorted and rounded up to buckets, with static shapes, with its default limit, and dynamic.
"""

import argparse
import random
from typing import Any

from on_path import ROOT

from tools import models
from tools.bench_device import (
    MIB,
    NO_DYNAMIC_VRAM,
    PLAIN,
    Device,
    add_gpu,
    narrowed,
    served,
)
from tools.bench_run import alone
from tools.graph import Graph, add_checkpoint, add_ksampler
from tools.load_file import load_file

NAME = "mixed_sizes"
REHEARSAL = ("--divide", "8", "--step-mib", "64", "--modes", "native")
PUBLISHED = ((1024, 1024), (1024, 1152), (1360, 1536))
SIXTEEN = tuple((w, h) for h in (960, 720, 896, 768) for w in (960, 720, 896, 768))
ROOM_MIB = 8192
MODES = ("native", "expandable_segments", "cudaMallocAsync")
ORDERS = ("smallest first", "largest first")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--divide", type=int, default=2, help="the published sizes by this")
    parser.add_argument("--modes", nargs="+", choices=MODES, help="default: all")
    parser.add_argument("--step-mib", type=int, default=4, help="of the search for the capacity")


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return the figures: bytes exact, graphs counted; no time is measured."""
    sizes = [tuple(side // args.divide // 8 * 8 for side in size) for size in PUBLISHED]
    result: dict[str, object] = {
        "model": "SD1.5-class UNet and TAESD, random weights",
        "sizes": [f"{width}x{height}" for width, height in sizes],
    }
    for mode in (args.modes or MODES) if args.gpu or args.fake_cuda else ():
        result[mode] = _orders(args, sizes, mode)
    result["torch_compile"] = compiled_graphs()
    return result


def _orders(
    args: argparse.Namespace, sizes: list[tuple[int, ...]], mode: str
) -> dict[str, object]:
    own = mode == "cudaMallocAsync"
    with served(
        args, ROOM_MIB, expandable=mode == "expandable_segments",
        files=[models.TEST_CHECKPOINT, models.TAESD_ENCODER, models.TAESD_DECODER],
        plain=(NO_DYNAMIC_VRAM,) if own else PLAIN,
        flags=("--highvram", *(["--cuda-malloc"] if own else [])),
    ) as device:
        bench = SizeBench(device, sizes)
        bench.check_allocator(mode)
        found = {order: bench.measure(order, args.step_mib) for order in ORDERS}
        tight = max(float(one["smallest_capacity_mib"]) for one in found.values())
        for order, one in found.items():
            one |= {"tight_capacity_mib": tight, "tight_retries": bench.retries(order, tight)}
        return dict(found)


class SizeBench:
    """One prompt over all sizes, on a device whose capacity can be set."""

    def __init__(self, device: Device, sizes: list[tuple[int, ...]]) -> None:
        self.device = device
        self.text = "\n".join(f"{width}x{height}" for width, height in sizes)

    def check_allocator(self, mode: str) -> None:
        """Run the prompt once; RuntimeError when the server's allocator is another than asked."""
        assert self.completes(ORDERS[0], ROOM_MIB)
        figures = self.device.ledger()
        seen = figures["allocator"]
        if seen == "native" and figures["expandable_segments"]:
            seen = "expandable_segments"
        if seen != mode:
            raise RuntimeError(f"the server was asked for {mode} and its allocator is {seen}")

    def measure(self, order: str, step_mib: int) -> dict[str, Any]:
        retries = self.retries(order, ROOM_MIB)
        figures = self.device.collect()
        peak_mib = figures["peak_reserved_bytes"] / MIB

        def completes(steps: int) -> bool:
            return self.completes(order, steps * step_mib)

        low, high = 0, int(peak_mib / step_mib) + 1
        while not completes(high):
            low, high = high, high * 2
        return {
            "peak_reserved_mib": round(peak_mib, 3),
            "peak_allocated_mib": round(figures["peak_allocated_bytes"] / MIB, 3),
            "alloc_retries": retries,
            "smallest_capacity_mib": narrowed(completes, low, high) * step_mib,
        }

    def retries(self, order: str, capacity_mib: float) -> int:
        """How often the allocator gave its cache back and tried again; the prompt must complete."""
        before = self.device.collect()["alloc_retries"]
        assert self.completes(order, capacity_mib), f"{order} needs more than {capacity_mib} MiB"
        return int(self.device.collect()["alloc_retries"] - before)

    def completes(self, order: str, capacity_mib: float) -> bool:
        """Run the prompt on an empty device of that capacity; False when memory ran out."""
        return self.device.attempt(self.prompt(order), capacity_mib) is None

    def prompt(self, order: str) -> dict[str, Any]:
        graph = Graph()
        checkpoint = add_checkpoint(graph, models.TEST_CHECKPOINT)
        sorter = graph.add("HeadroomSizeSorter", sizes=self.text, order=order,
                           fit="keep each size", bucket=64)
        latent = graph.add("EmptyLatentImage", width=sorter[0], height=sorter[1], batch_size=1)
        positive = graph.add("CLIPTextEncode", clip=checkpoint[1], text="a red cube")
        sampled = add_ksampler(graph, checkpoint[0], positive, positive, latent, steps=1)
        decoded = graph.add("VAEDecode", samples=sampled, vae=checkpoint[2])
        graph.add("PreviewImage", images=decoded)
        return graph.prompt


# ---------------------------------------------------------------- torch.compile


def compiled_graphs() -> dict[str, object]:
    """Count the graphs that torch.compile makes for each list of sizes."""
    lists = _size_lists()
    return {
        "sizes": len(SIXTEEN),
        "static shapes": {name: _graphs(sizes, dynamic=False) for name, sizes in lists.items()},
        "static shapes, default limit": {
            name: _graphs(sizes, dynamic=False, limit=None) for name, sizes in lists.items()
        },
        "automatic": {name: _graphs(sizes, dynamic=None) for name, sizes in lists.items()},
    }


def _size_lists() -> dict[str, list[Any]]:
    headroom = load_file("headroom", ROOT / "headroom" / "__init__.py")
    mixed = [headroom.Size(*size) for size in SIXTEEN]
    random.Random(1).shuffle(mixed)
    text = "\n".join(str(size) for size in mixed)
    bucketed = {"fit": "round up to bucket", "bucket": 128}
    padded = {"fit": "pad up to largest"}
    ways: dict[str, dict[str, Any]] = {"sorted": {}, "bucket 128": bucketed, "padded": padded}
    return {"mixed": mixed} | {
        name: [item.size for item in headroom.sort_work(text, **way).sizes.placed]
        for name, way in ways.items()
    }


def _graphs(sizes: list[Any], dynamic: bool | None, limit: int | None = 64) -> dict[str, int]:
    """Return the graphs made, and the calls that ran without one, for latents of these sizes."""
    import torch
    import torch._dynamo

    torch._dynamo.reset()
    default = torch._dynamo.config.recompile_limit
    made: list[int] = []
    calls: list[int] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        made.append(1)

        def compiled(*inputs: Any) -> Any:
            calls.append(1)
            return graph(*inputs)

        return compiled

    net = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.SiLU(), torch.nn.Conv2d(8, 4, 3, padding=1)
    )
    torch._dynamo.config.recompile_limit = limit or default
    try:
        step = torch.compile(net, backend=backend, dynamic=dynamic)
        with torch.no_grad():
            for size in sizes:
                step(torch.zeros(1, 4, size.height // 8, size.width // 8))
    finally:
        torch._dynamo.config.recompile_limit = default
    return {"graphs": len(made), "calls without a graph": len(sizes) - len(calls)}


if __name__ == "__main__":
    alone()

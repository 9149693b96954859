"""How many graphs torch.compile makes for mixed picture sizes, as Size Sorter arranges them.

    python benchmarks/mixed_sizes.py

Sixteen published sizes: mixed, sorted, in buckets and padded, with static shapes. On the CPU and
without ComfyUI; what the order of sizes does to memory is `size_orders`.
"""

import argparse
import random
from typing import Any

from on_path import ROOT

from tools.bench_run import alone
from tools.load_file import load_file

NAME = "mixed_sizes"
SIXTEEN = tuple((w, h) for h in (960, 720, 896, 768) for w in (960, 720, 896, 768))
WAYS: dict[str, dict[str, Any]] = {
    "sorted": {},
    "bucket 128": {"fit": "round up to bucket", "bucket": 128},
    "padded": {"fit": "pad up to largest"},
}
MOST_GRAPHS = 64  # so that torch does not give up compiling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has no settings."""


def run(_: argparse.Namespace) -> dict[str, Any]:
    """Return the graphs of each way; no time is measured."""
    graphs = {name: {"graphs": _graphs(sizes)} for name, sizes in _size_lists().items()}
    return {"torch_compile": {"sizes": len(SIXTEEN), "static shapes": graphs}}


def _size_lists() -> dict[str, list[Any]]:
    headroom = load_file("headroom", ROOT / "headroom" / "__init__.py")
    mixed = [headroom.Size(*size) for size in SIXTEEN]
    random.Random(1).shuffle(mixed)
    text = "\n".join(str(size) for size in mixed)
    return {"mixed": mixed} | {
        name: [item.size for item in headroom.sort_work(text, **way).sizes.placed]
        for name, way in WAYS.items()
    }


def _graphs(sizes: list[Any]) -> int:
    """The graphs made for latents of these sizes."""
    import torch
    import torch._dynamo

    made: list[Any] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        made.append(graph)
        return graph

    net = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.SiLU(), torch.nn.Conv2d(8, 4, 3, padding=1)
    )
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=MOST_GRAPHS), torch.no_grad():
        step = torch.compile(net, backend=backend, dynamic=False)
        for size in sizes:
            step(torch.zeros(1, 4, size.height // 8, size.width // 8))
    return len(made)


if __name__ == "__main__":
    alone()

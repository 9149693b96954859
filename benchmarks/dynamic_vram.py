"""ComfyUI's dynamic VRAM on and off: peak of the driver's memory, time, and what a purge leaves.

    python benchmarks/dynamic_vram.py --comfyui PATH --gpu

The same prompt (SD1.5 class: encode, sample, decode, Purge VRAM) on two servers, with and without
`--disable-dynamic-vram`. Dynamic VRAM needs an NVIDIA driver and a ComfyUI that has it. Its pages
are not torch's, so the driver is asked, ten times a second while the prompt runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAME = "dynamic_vram"
REHEARSAL = ("--turns", "1", "--size", "64")
ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from devtools import models  # noqa: E402
from devtools.bench_device import (  # noqa: E402
    NATIVE_ALLOCATOR,
    NO_DYNAMIC_VRAM,
    Device,
    add_gpu,
    serve,
)
from devtools.bench_run import alone  # noqa: E402
from devtools.errors import NotHere  # noqa: E402
from devtools.graph import Graph, add_checkpoint, add_purge, add_sampler, forget_everything  # noqa: E402
from devtools.server import known_flags  # noqa: E402

CAPACITY_MIB = 8192
TIMEOUT = 1800.0
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_gpu(parser)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024, help="pixels")


def run(args: argparse.Namespace) -> Json:
    """Return bytes by the driver's count and median seconds for both."""
    if not args.gpu:
        raise NotHere("dynamic VRAM needs a real NVIDIA GPU (--gpu)")
    if NO_DYNAMIC_VRAM not in known_flags(Path(args.comfyui)):
        raise NotHere("this ComfyUI has no dynamic VRAM")
    models.make_models(models.models_folder(), [models.DEMO_CHECKPOINT])
    off = measured(args, [NATIVE_ALLOCATOR, NO_DYNAMIC_VRAM])
    on = measured(args, [NATIVE_ALLOCATOR])
    return {"turns": args.turns, "size": args.size, "on": on, "off": off}


def measured(args: argparse.Namespace, flags: list[str]) -> Json:
    with tempfile.TemporaryDirectory() as base:
        server = serve(args, base, CAPACITY_MIB, plain=flags, models_dir=models.models_folder())
        with server:
            device = Device(server.client(), args.gpu)
            if is_on(device) == (NO_DYNAMIC_VRAM in flags):
                raise NotHere(f"the server with {' '.join(flags)} has dynamic VRAM "
                              f"{'on' if is_on(device) else 'off'}")
            turns = [one_run(device, args.size, turn) for turn in range(args.turns + 1)][1:]
    return {
        "peak_used_bytes": max(turn["peak"] for turn in turns),
        "left_used_bytes": turns[-1]["left"],
        "seconds": round(statistics.median(turn["seconds"] for turn in turns), 3),
    }


def is_on(device: Device) -> bool:
    """Whether this server streams weights through dynamic VRAM."""
    devices = device.client.get_json("/headroom/memory")["devices"]
    return any(one["dynamic_mib"] is not None for one in devices)


def one_run(device: Device, size: int, seed: int) -> Json:
    forget_everything(device.client)
    idle = device.collect()
    graph = Graph()
    checkpoint = add_checkpoint(graph, models.DEMO_CHECKPOINT)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=seed, size=size)
    add_purge(graph, value=graph.add("VAEDecode", samples=latent, vae=checkpoint[2]))
    started = time.monotonic()
    prompt_id = device.client.queue(graph.prompt)
    lowest = idle["free_bytes"]
    while device.client.history(prompt_id) is None:
        lowest = min(lowest, device.ledger()["free_bytes"])
        if time.monotonic() - started > TIMEOUT:
            raise TimeoutError(f"The prompt did not finish within {TIMEOUT:g} s")
        time.sleep(0.1)
    device.client.wait(prompt_id, TIMEOUT)
    record = device.client.get_json(f"/headroom/runs/{prompt_id}")
    left = idle["free_bytes"] - device.collect()["free_bytes"]
    return {"seconds": record["seconds"], "peak": idle["free_bytes"] - lowest, "left": left}


if __name__ == "__main__":
    alone(sys.modules[__name__])

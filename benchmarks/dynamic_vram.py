"""ComfyUI's dynamic VRAM on and off: peak of the driver's memory, time, and what a purge leaves.

    python benchmarks/dynamic_vram.py --comfyui PATH --gpu

The same prompt (SD1.5 class: encode, sample, decode, Purge VRAM) on two servers, with and without
`--disable-dynamic-vram`. Dynamic VRAM needs an NVIDIA driver and a ComfyUI that has it. Its pages
are not torch's, so the driver is asked, ten times a second while the prompt runs.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from tools import models
from tools.bench_device import (
    NATIVE_ALLOCATOR,
    NO_DYNAMIC_VRAM,
    TIMEOUT_S,
    Device,
    add_gpu,
    served,
)
from tools.bench_run import alone
from tools.errors import NotHere
from tools.graph import Graph, add_checkpoint, add_purge, add_sampler, forget_everything
from tools.server import known_flags

NAME = "dynamic_vram"
REHEARSAL = ("--turns", "1", "--size", "64")
CAPACITY_MIB = 8192
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
    off = measured(args, [NATIVE_ALLOCATOR, NO_DYNAMIC_VRAM])
    on = measured(args, [NATIVE_ALLOCATOR])
    return {"turns": args.turns, "size": args.size, "on": on, "off": off}


def measured(args: argparse.Namespace, flags: list[str]) -> Json:
    with served(args, CAPACITY_MIB, files=[models.DEMO_CHECKPOINT], plain=flags) as device:
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
        if time.monotonic() - started > TIMEOUT_S:
            raise TimeoutError(f"The prompt did not finish within {TIMEOUT_S:g} s")
        time.sleep(0.1)
    device.client.wait(prompt_id, TIMEOUT_S)
    record = device.client.get_json(f"/headroom/runs/{prompt_id}")
    left = idle["free_bytes"] - device.collect()["free_bytes"]
    return {"seconds": record["seconds"], "peak": idle["free_bytes"] - lowest, "left": left}


if __name__ == "__main__":
    alone()

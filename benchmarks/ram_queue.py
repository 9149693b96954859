"""A queue of prompts, some of which need more RAM than the server may have, and what is left of it.

    python benchmarks/ram_queue.py --comfyui PATH [--prompts N]

On the CPU, in a cgroup with a memory limit, so that the kernel really ends the server: once with
HEADROOM_RAM_FREE_MIB=0 and HEADROOM_QUEUE=off, once with both on. A prompt is lost where neither
ComfyUI's history nor the kept queue knows of it. Small prompts take 50 MiB, large ones grow by 200
MiB a second, as frames that are decoded do, up to twice the limit.

`cost`: CPU time of two servers that have room, on and off, for the same pictures in turn, in
blocks; the ratio is the median over the blocks, each set against its neighbour.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import urllib.error
from typing import Any

import on_path  # noqa: F401
import psutil

from tools import models
from tools.bench_device import serve
from tools.bench_run import alone
from tools.client import was_interrupted
from tools.memory_group import memory_group
from tools.rescued import picture

NAME = "ram_queue"
LARGE_OF = 10  # one prompt in so many
WAYS = {"off": {"HEADROOM_RAM_FREE_MIB": "0", "HEADROOM_QUEUE": "off"},
        "on": {"HEADROOM_QUEUE": "keep"}}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--limit", type=int, default=800, help="MiB beside what its start takes")
    parser.add_argument("--free", type=int, default=400, help="MiB to stay free")
    parser.add_argument("--blocks", type=int, default=16, help="of the cost, a way")
    parser.add_argument("--pictures", type=int, default=4, help="in a block")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return what became of the queue each way, and the ratio of CPU time where there is room."""
    found = {way: _queue(args, way) for way in WAYS}
    problems = [f"{count} prompts lost" for count in [found["on"]["lost"]] if count]
    return {"prompts": args.prompts, "large": len(range(LARGE_OF // 2, args.prompts, LARGE_OF)),
            "limit_mib": args.limit, "free_mib": args.free, **found, "cost": _cost(args),
            "problems": problems}


def _prompt(args: argparse.Namespace, number: int) -> dict[str, Any]:
    mib = 2 * args.limit if number % LARGE_OF == LARGE_OF // 2 else 50
    return {"1": {"class_type": "TimedGrow", "inputs": {
        "seconds": 0.0, "salt": number, "mib": mib}}}


def _queue(args: argparse.Namespace, way: str) -> dict[str, Any]:
    """Queue all prompts and wait for each, or for the end of the server."""
    env = {**ONE_THREAD, "HEADROOM_RAM_FREE_MIB": str(args.free), **WAYS[way]}
    with memory_group(args.limit) as group, tempfile.TemporaryDirectory() as base:
        with serve(args, base, None, packs=["headroom_timed"], env=env) as server:
            process = server.process
            assert process is not None
            (group / "cgroup.procs").write_text(str(process.pid))
            client = server.client()
            ids = [client.queue(_prompt(args, number)) for number in range(args.prompts)]
            ended = []
            try:
                for prompt_id in ids:
                    entry = client.wait(prompt_id, 300)
                    ended.append("stopped" if was_interrupted(entry)
                                 else entry["status"]["status_str"])
            except (OSError, urllib.error.URLError):
                process.wait(60)
            code = process.poll()
        if way == "off" or code is None:
            kept = 0
        else:
            kept = _kept(args, base)
    return {"ran": ended.count("success"), "stopped": ended.count("stopped"),
            "failed": ended.count("error"), "killed": code is not None, "kept": kept,
            "lost": args.prompts - len(ended) - kept}


def _kept(args: argparse.Namespace, base: str) -> int:
    """How many prompts the next server in that folder knows of."""
    with serve(args, base, None, packs=["headroom_timed"], env=WAYS["on"]) as server:
        return len(server.client().get_json("/headroom/queue")["prompts"])


def _cost(args: argparse.Namespace) -> dict[str, Any]:
    weights = models.models_folder()
    models.make_models(weights, [models.TEST_CHECKPOINT], comfyui=args.comfyui)
    spent: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as off, tempfile.TemporaryDirectory() as on:
        servers = {way: serve(args, base, None, models_dir=weights, env={**ONE_THREAD, **WAYS[way]})
                   for way, base in (("off", off), ("on", on))}
        with servers["off"], servers["on"]:
            for block in range(-1, args.blocks):  # the first loads the model
                for way in list(WAYS)[::1 if block % 2 else -1]:
                    seconds = _block(servers[way], args.pictures, 1000 * (block + 1))
                    if block >= 0:
                        spent[way].append(seconds)
    ratios = [on / off for on, off in zip(spent["on"], spent["off"], strict=True)]
    return {"pictures": args.blocks * args.pictures, "ratio": round(statistics.median(ratios), 4),
            "middle_half": [round(one, 4) for one in statistics.quantiles(ratios, n=4)[::2]],
            "ratio_of_sums": round(sum(spent["on"]) / sum(spent["off"]), 4),
            "cpu_s": {way: round(sum(seconds), 2) for way, seconds in spent.items()}}


def _block(server: Any, pictures: int, seed: int) -> float:
    """CPU seconds of a server for so many pictures."""
    client, process = server.client(), psutil.Process(server.process.pid)
    before = process.cpu_times()
    for number in range(pictures):
        client.run(picture(seed=seed + number, size=128).prompt)
    after = process.cpu_times()
    return (after.user + after.system) - (before.user + before.system)


if __name__ == "__main__":
    alone()

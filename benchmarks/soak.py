"""Hundreds of mixed prompts on a simulated GPU while everything goes wrong that can.

    python benchmarks/soak.py --comfyui PATH [--prompts N] [--seed N]

One real ComfyUI in GPU mode, two browsers connected. Every kind of prompt runs once undisturbed;
its results are the reference. Then the prompts are queued in bursts, in random order, while
- allocations fail: any of a prompt's, up to three in a row or all of them, with every error text;
- prompts are interrupted;
- files in the cache of embeddings are damaged, swapped, emptied, replaced by folders and links;
- the disk refuses: the kernel limits the size of the server's files (RLIMIT_FSIZE, Linux);
- `POST /headroom/purge` and `/headroom/offload` arrive several times a second.
A second, short run is of a server without the optional libraries.

Judged: the server lives, its log holds no traceback but those of failed nodes; every result equals
its reference bit for bit, or within a thousandth of the range after a split; every failure is
explained; the queue is empty at the end; VRAM and RAM do not grow. For the latter the server is
emptied every 25 prompts (Purge VRAM with `reset_node_cache` and `free_ram`, history cleared); VRAM
must then be the same to the byte, and a straight line by least squares through the RAM in use
(of the second half: by then what has an end is full) must have a slope whose 95 % interval
contains 0. In use is what the C heap has given out, Python's objects included; resident memory
(recorded beside it) goes up and down by 20 MiB with the holes in the heap's arenas. Taken off are
the two integers that safetensors (0.4 to 0.8) keeps for good of every tensor it reads.
"""

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

import on_path  # noqa: F401
import soak_server
from soak_judge import PACK_FRAME, Reference, log_problems
from soak_prompts import FILES, KINDS, build
from soak_run import Soak

from tools import models
from tools.bench_device import PROBES, TIMEOUT_S
from tools.bench_run import alone
from tools.client import PromptFailed
from tools.server import ServerError

NAME = "soak"
CAPACITY_MIB = 2048
SERVER_ARGS = ("--force-fp32",)  # a split is judged in float32 terms


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop earlier after that")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds-per-kind", type=int, default=2, help="references of each kind")
    parser.add_argument("--measure-every", type=int, default=25, help="prompts")
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    parser.add_argument("--log", type=Path, help="file that keeps the server's log")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return what became of the prompts, and everything that is wrong."""
    folder = models.models_folder()
    models.make_models(folder, FILES, comfyui=args.comfyui)
    options: dict[str, Any] = {"simulate_mib": CAPACITY_MIB, "args": SERVER_ARGS,
                               "packs": [PROBES / "headroom_soak"], "models_dir": folder}
    env = {"OMP_NUM_THREADS": "1", "PYTHONMALLOC": "malloc"}
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(args.comfyui)
        server = soak_server.PipedServer(tree, Path(scratch) / "a", env=env, **options)
        try:
            with server:
                soak = Soak(server, args)
                soak.refer()
                soak.disturb()
                result = soak.result()
        finally:
            if args.log is not None:
                args.log.write_text(server.log_text(), encoding="utf-8")
        result["problems"] += log_problems(server.log_text(), ("OSError: Offload Model",))
        env |= soak_server.without_libraries(Path(scratch) / "blocked")
        bare = soak_server.PipedServer(tree, Path(scratch) / "b", env=env, **options)
        try:
            with bare:
                found = without_libraries(bare, soak.references)
            result["without_libraries"] = found
            result["problems"] += found["log"]
            result["problems"] += [f"without libraries: {kind} gives another result"
                                   for kind in found["kinds_that_differ"]]
        except (ServerError, PromptFailed) as error:
            result["problems"].append(f"without libraries: {error}\n{bare.log_text()[-3000:]}")
    return result


def without_libraries(
    server: soak_server.PipedServer, references: dict[tuple[str, int], Reference]
) -> dict[str, Any]:
    """Run one prompt of each kind that needs no missing library; they must not differ."""
    client, compared, differing, left_out = server.client(), 0, [], []
    known = set(client.get_json("/object_info"))
    for kind in dict.fromkeys(kind for kind, _ in references):
        soaked = build(kind, 1, f"bare-{kind}")
        if not {node["class_type"] for node in soaked.graph.prompt.values()} <= known:
            left_out.append(kind)
            continue
        outputs = client.run(soaked.graph.prompt, timeout=TIMEOUT_S)["outputs"]
        compared += 1
        if [outputs[node]["text"] for node in soaked.kept] != references[kind, 1].kept:
            differing.append(kind)
    client.post_json("/headroom/purge", {})
    ours = sorted(name for name in known if name.startswith("Headroom"))
    return {
        "libraries": list(soak_server.LIBRARIES), "nodes": len(ours), "kinds_compared": compared,
        "kinds_that_need_a_missing_library": left_out, "kinds_that_differ": differing,
        "log": [part for part in log_problems(server.log_text()) if PACK_FRAME in part],
    }


if __name__ == "__main__":
    alone()

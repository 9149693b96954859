"""A queue of prompts, some of which need more RAM than the server may have, and what is left of it.

    python benchmarks/ram_queue.py --comfyui PATH [--prompts N]

On the CPU, in a cgroup with a memory limit, so that the kernel really ends the server: once with
HEADROOM_RAM_FREE_MIB=0 and HEADROOM_QUEUE=off, once with the defaults of both in such a limit (the
server joins the group after its start, and would keep 2 % of the machine free). A prompt is lost
where neither ComfyUI's history nor the kept queue knows of it. Small prompts take 50 MiB, large
ones grow by 200 MiB a second, as frames that are decoded do, up to twice the limit.

`cost`: on a server that has room, the CPU time of the threads that look at RAM and note it in the
queue's file, and of writing each prompt there, set against all CPU time of the same server for the
same pictures. Two servers, one of them without these threads, cannot be compared on a machine that
does other work: even two equal ones were 3 % apart.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from headroom.actions.make_room import SHARE, VARIABLE
from headroom.rescue.queue_file import new_file
from tools import models
from tools.bench_device import serve
from tools.bench_run import alone
from tools.client import node_texts, was_interrupted
from tools.graph import picture
from tools.memory_group import memory_group

NAME = "ram_queue"
LARGE_OF = 10  # one prompt in so many
WAYS = {"off": {"HEADROOM_RAM_FREE_MIB": "0", "HEADROOM_QUEUE": "off"},
        "on": {}}
WARM = 2  # pictures that are not counted: the first loads the model
OWN_THREADS = ("headroom RAM", "headroom queue")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--limit", type=int, default=600, help="MiB beside what its start takes")
    parser.add_argument("--pictures", type=int, default=40, help="of the cost")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return what became of the queue each way, and the ratio of CPU time where there is room."""
    found = {way: _queue(args, way) for way in WAYS}
    problems = [f"{count} prompts lost" for count in [found["on"]["lost"]] if count]
    return {"prompts": args.prompts, "large": len(range(LARGE_OF // 2, args.prompts, LARGE_OF)),
            "limit_mib": args.limit, **found, "cost": _cost(args),
            "problems": problems}


def _prompt(args: argparse.Namespace, number: int) -> dict[str, Any]:
    mib = 2 * args.limit if number % LARGE_OF == LARGE_OF // 2 else 50
    return {"1": {"class_type": "TimedGrow", "inputs": {
        "seconds": 0.0, "salt": number, "mib": mib}}}


def _queue(args: argparse.Namespace, way: str) -> dict[str, Any]:
    """Queue all prompts and wait for each, or for the end of the server."""
    by_itself = {VARIABLE: str(int(SHARE * args.limit))}
    env = {**ONE_THREAD, **(WAYS[way] or by_itself)}
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
            except OSError:
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
    graphs = [picture(seed=number, size=128) for number in range(WARM + args.pictures)]
    with tempfile.TemporaryDirectory() as base, serve(
            args, base, None, packs=["headroom_timed"], models_dir=weights,
            env={**ONE_THREAD, **WAYS["on"]}) as server:
        assert server.process is not None
        client, pid = server.client(), server.process.pid
        told = client.run({"1": {"class_type": "TimedThreads",
                                 "inputs": {"seconds": 0.0, "salt": 0}}})
        threads = json.loads(node_texts(told)["1"])["threads"]
        for graph in graphs[:WARM]:
            client.run(graph.prompt)
        before = _spent(pid, threads)
        for graph in graphs[WARM:]:
            client.run(graph.prompt)
        spent = {name: after - before[name] for name, after in _spent(pid, threads).items()}
    spent["the file"] = sum(_written(graph.prompt) for graph in graphs[WARM:])
    whole = spent.pop("server")
    return {"pictures": args.pictures, "server_cpu_s": round(whole, 2),
            "own_cpu_ms": {name: round(1000 * own, 2) for name, own in spent.items()},
            "ratio": round(whole / (whole - sum(spent.values())), 5)}


def _spent(pid: int, threads: dict[str, int]) -> dict[str, float]:
    """CPU seconds so far of the process and of the threads that are there for RAM and queue."""
    clock = (~pid << 3) | 2  # what clock_getcpuclockid(3) gives for it
    found = {"server": time.clock_gettime(clock)}
    for name in OWN_THREADS:
        told = Path(f"/proc/{pid}/task/{threads[name]}/schedstat").read_text().split()
        found[name] = int(told[0]) / 1e9
    return found


def _written(prompt: dict[str, Any]) -> float:
    """CPU seconds for one prompt in the file: it comes, begins and ends."""
    with tempfile.TemporaryDirectory() as folder:
        file = new_file(Path(folder))
        item: tuple[Any, ...] = (1.0, "a", prompt, {"client_id": "me"}, ["save"], {})
        began = time.thread_time()
        file.keep([], [item])
        file.keep([item], [])
        file.keep([], [])
        spent = time.thread_time() - began
        file.close()
    return spent


if __name__ == "__main__":
    alone()

"""A farm: 300 mixed prompts on three GPUs of different size while servers and the head die.

    python benchmarks/farm_proof.py --comfyui PATH [--prompts N]

It needs `pip install -r farm/requirements.txt`. Three ComfyUI servers on simulated GPUs, shapes
only: every allocation takes place, no arithmetic. So that the two cores of a small machine do not
decide how fast three servers are, each prompt waits in a node for as long as a GPU would compute.

First equal prompts on one server, then three times as many on three, all adopted: throughput. Then
the mixed queue. The small GPU's server is adopted, so that it is the first to try every kind; the
two others the farm starts itself. The large one is killed (SIGKILL), the middle one stopped
(SIGSTOP: it hangs), and the head is killed and started again. It checks that every prompt has one
complete result and none is lost; that some prompts got a rerun on the server for which they were
too large; that those which no guard makes small enough ran on the large server, some of them after
a move; and that nothing that the farm started still runs. A server that dies after it has saved a
file leaves that file in its own folder, and the prompt is run again elsewhere: how many prompts
were executed twice is counted, not judged.
"""

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import farm_cost
import on_path  # noqa: F401
from farm_run import Farm, Fault, has_door, own_server

from tools import models
from tools.bench_device import serve
from tools.bench_run import alone
from tools.errors import NotHere
from tools.graph import picture

NAME = "farm_proof"
PACKS = ("headroom_shapes_only", "headroom_timed")
GPUS_MIB = {"small": 120, "middle": 400, "large": 4096}
LARGE_ONLY = (1536, 1)  # one picture, which no guard can split
# (side, batch) and how many of ten prompts: what each needs is found out by the farm.
KINDS = {(64, 1): 4, (256, 4): 3, (256, 12): 2, LARGE_ONLY: 1}
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=int, default=300)
    parser.add_argument("--alone", type=int, default=30, help="prompts of the throughput's server")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a GPU would compute")


def run(args: argparse.Namespace) -> Json:
    """Return throughput, the scheduler's cost, and how the mixed queue ended."""
    if not has_door():
        raise NotHere("it needs Starlette: pip install -r farm/requirements.txt")
    weights = models.models_folder()
    models.make_models(weights, [models.TEST_CHECKPOINT], comfyui=args.comfyui)
    found: Json = {"gpus_mib": GPUS_MIB, "prompts": args.prompts, "seconds": args.seconds}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        servers = {
            name: serve(args, folder / name, mib, packs=PACKS, env=ENVIRONMENT, models_dir=weights)
            for name, mib in GPUS_MIB.items()
        }
        with servers["small"]:
            if args.alone:
                with servers["middle"], servers["large"]:
                    found["throughput"] = throughput(args, folder, servers)
            found |= mixed(args, folder, servers)
    return {**found, "head": farm_cost.head()}


def throughput(args: argparse.Namespace, folder: Path, servers: Json) -> Json:
    """Prompts a minute on one server and on three."""
    count, result = args.alone, {}
    for names in (["large"], list(servers)):
        farm = Farm(folder / f"throughput{len(names)}", [servers[name].url for name in names])
        prompts = [prompt(n, (64, 1), args.seconds, f"t{len(names)}")
                   for n in range(count * len(names))]
        farm.write(prompts)
        farm.run_through()
        result[str(len(names))] = {"prompts": len(prompts), **farm.pace()}
    one, three = (result[key]["prompts_a_minute"] for key in ("1", "3"))
    return {**result, "three_of_one": round(three / one, 2)}


def mixed(args: argparse.Namespace, folder: Path, servers: Json) -> Json:
    """Run the queue while all faults happen."""
    prompts = mixture(args)
    started = [own_server(servers[name], name) for name in ("middle", "large")]
    farm = Farm(folder / "mixed", [{"name": "small", "url": servers["small"].url}, *started])
    farm.write(prompts)
    bases = {name: str(server.base_dir) for name, server in servers.items()}
    faults = [
        Fault("server_killed", len(prompts) // 4, bases["large"]),
        Fault("server_hung", len(prompts) // 2, bases["middle"]),
        Fault("driver_killed", len(prompts) * 3 // 4),
    ]
    for fault in faults:
        farm.run_until(fault)
    left_running = farm.processes(bases["middle"], bases["large"])
    farm.run_through()
    left_running += farm.processes(bases["middle"], bases["large"])
    problems = [f"{fault.what} did not take place" for fault in faults if not fault.is_done]
    problems += [f"left running: {words}" for words in left_running]
    found = farm.results()
    results = {one["name"]: one for one in found}
    problems += [f"{len(found)} results of {len(results)} prompts"] * (len(found) > len(results))
    problems += [text for number, body in enumerate(prompts)
                 for text in judge(body, results.get(f"{farm.file}:{number + 1}"), farm)]
    told = list(results.values())
    ended = Counter(entry["prompt"][1] for entry in farm.entries())
    problems += [f"{key} has ended {times} times" for key, times in ended.items() if times > 1]
    rescued, moved = (sum(bool(one[what]) for one in told) for what in ("rescued", "moved"))
    problems += [f"none was {what}" for what, count in
                 (("rescued on its own server", rescued), ("moved", moved)) if not count]
    return {
        "finished": len(results), "faults": [fault.what for fault in faults if fault.is_done],
        "by_server": dict(Counter(one["server"] for one in told)),
        "rescued": rescued, "moved": moved,
        "executed_twice": sum(executions(servers, body) > 1 for body in prompts),
        **farm.pace(), "problems": problems,
    }


def mixture(args: argparse.Namespace) -> list[Json]:
    """The prompts in random order; what is left of their number are small ones."""
    kinds = [kind for kind, of_ten in KINDS.items() for _ in range(of_ten * args.prompts // 10)]
    kinds += [(64, 1)] * (args.prompts - len(kinds))
    random.Random(1).shuffle(kinds)
    return [prompt(number, kind, args.seconds) for number, kind in enumerate(kinds)]


def prompt(number: int, kind: tuple[int, int], seconds: float, prefix: str = "m") -> Json:
    """A picture whose decoding begins when a GPU would be done with the sampling."""
    size, batch = kind
    nodes = picture(seed=number, size=size, batch=batch).prompt
    nodes["wait"] = {"class_type": "TimedWork", "inputs": {
        "seconds": seconds, "salt": 0, "value": ["sampler", 0]}}
    nodes["decode"]["inputs"]["samples"] = ["wait", 0]
    nodes["save"]["inputs"]["filename_prefix"] = f"{prefix}{number:04d}"
    return dict(nodes)


def tag(body: Json) -> str:
    return str(body["save"]["inputs"]["filename_prefix"])


def judge(body: Json, result: Json | None, farm: Farm) -> list[str]:
    """What is wrong with the result of a prompt."""
    if result is None:
        return [f"{tag(body)} has no result"]
    latent = body["latent"]["inputs"]
    files = [file for file in result["files"] if file["name"].startswith(tag(body))]
    problems = []
    if len(files) != latent["batch_size"]:
        problems.append(f"{tag(body)} has {len(files)} files of {latent['batch_size']}")
    problems += [f"{file['name']} is not whole" for file in files
                 if farm.sha256(result["key"], file["name"]) != file["sha256"]]
    if (latent["width"], latent["batch_size"]) == LARGE_ONLY and result["server"] != "large":
        problems.append(f"{tag(body)} is too large for {result['server']}, and was finished there")
    return problems


def executions(servers: Json, body: Json) -> float:
    """How often a prompt has written its files, on whatever server."""
    files = [path for server in servers.values()
             for path in (server.base_dir / "output").glob(f"{tag(body)}_*")]
    return len(files) / body["latent"]["inputs"]["batch_size"]


if __name__ == "__main__":
    alone()

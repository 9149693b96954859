"""Who chooses the server better: the farm's queue, or a request router of Ray Serve.

    python benchmarks/farm_router.py [--write]

Two servers, the larger twice as large as the smaller; first prompts that only the larger takes are
queued, then as many that both take. The best possible is that each server works through its half.
The router knows sizes and needs; Serve's replicas compute nothing, as the farm's servers here.
"""

import argparse
import tempfile
import time
from importlib.util import find_spec

from farm_door import Door, comfies
from farm_run import has_door

from tools.bench_run import alone
from tools.errors import NotHere

NAME = "farm_router"
MIB = (1000, 2000)  # of the servers
NEEDS = (1500, 500)  # of the prompts: the large ones, the small ones
SECONDS_OF_ALL = 10.0  # that the best possible takes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.1, 0.5, 2.5],
                        help="how long a prompt takes")


def needs_of(seconds: float) -> list[int]:
    """What the prompts need in MiB, in the order in which they are queued."""
    return [need for need in NEEDS for _ in range(round(SECONDS_OF_ALL / seconds))]


def of_farm(seconds: float) -> float:
    """Seconds until a farm has finished all, when it knows what each kind needs."""
    with (tempfile.TemporaryDirectory() as folder, comfies(*MIB) as servers,
          Door([one.url for one in servers], folder) as door):
        for need in NEEDS:
            queue(door, need, 0.1, "learn")
            door.finish()
        began = time.perf_counter()
        for number, need in enumerate(needs_of(seconds)):
            queue(door, need, seconds, number)
        door.finish()
        return time.perf_counter() - began


def queue(door: Door, need_mib: int, seconds: float, seed: object) -> None:
    door.client.queue({"1": {"class_type": "Fake", "inputs": {
        "mib": need_mib, "seconds": seconds, "seed": seed}}})


def run(args: argparse.Namespace) -> dict:
    """Return seconds by the length of a prompt, of both; and how much longer the router took."""
    if not has_door() or find_spec("ray") is None:
        raise NotHere("it needs Ray Serve: pip install -r farm/requirements.txt")
    farm = [of_farm(seconds) for seconds in args.seconds]
    from farm_routed import times  # Ray takes seconds to import

    router = times(MIB, [needs_of(seconds) for seconds in args.seconds], args.seconds)
    return {"prompt_s": args.seconds, "best_s": SECONDS_OF_ALL,
            "farm_s": [round(one, 1) for one in farm],
            "router_s": [round(one, 1) for one in router],
            "router_to_farm": [round(a / b, 2) for a, b in zip(router, farm, strict=True)]}


if __name__ == "__main__":
    alone()

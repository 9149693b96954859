"""The part of `farm_router` on Ray Serve: a request router that knows sizes and needs."""

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

import ray
from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.request_router import RequestRouter

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # replicas cannot import it


class BySize(RequestRouter):
    """The smallest server that is large enough, else a larger one."""

    async def choose_replicas(self, candidate_replicas: Any, pending_request: Any = None) -> Any:
        mib = {one: (one.routing_stats or {}).get("mib", 0) for one in candidate_replicas}
        need = pending_request.args[0] if pending_request else 0
        if pending_request:  # else Serve asks again without a pause while there is none
            pending_request.routing_context.should_backoff = True
        return [[one] for one in sorted(mib, key=lambda one: mib[one]) if mib[one] >= need]


class Sizes:
    """Gives each replica a size of its own."""

    def __init__(self, mib: Sequence[int]) -> None:
        self._left = list(mib)

    def take(self) -> int:
        return self._left.pop()


class Server:
    """A server that computes nothing; it tells the router how large it is."""

    def __init__(self, sizes: Any) -> None:
        self._mib = ray.get(sizes.take.remote())

    def record_routing_stats(self) -> dict[str, int]:
        return {"mib": self._mib}

    async def __call__(self, need_mib: int, seconds: float) -> None:
        assert self._mib >= need_mib
        await asyncio.sleep(seconds)


def times(
    mib: Sequence[int], needs: Sequence[Sequence[int]], lengths: Sequence[float]
) -> list[float]:
    """Seconds until servers of these sizes have finished prompts of these needs and lengths."""
    router: dict[str, Any] = {"request_router_class": BySize, "initial_backoff_s": 0.01,
                              "max_backoff_s": 0.05, "request_routing_stats_period_s": 0.5}
    ray.init("local", log_to_driver=False, include_dashboard=False)
    try:
        serve.start(proxy_location="Disabled")
        made: Any = serve.deployment(Server)
        server = made.options(
            num_replicas=len(mib), max_ongoing_requests=1, ray_actor_options={"num_cpus": 0},
            request_router_config=RequestRouterConfig(**router))
        sizes = ray.remote(num_cpus=0)(Sizes).remote(mib)
        handle = serve.run(server.bind(sizes), name="router", route_prefix=None)
        for size in mib:  # until the router has heard of all sizes
            handle.remote(size, 0.0).result()
        return [_time(handle, *one) for one in zip(needs, lengths, strict=True)]
    finally:
        serve.shutdown()
        ray.shutdown()


def _time(handle: Any, needs: Sequence[int], seconds: float) -> float:
    began = time.perf_counter()
    for one in [handle.remote(need, seconds) for need in needs]:
        one.result()
    return time.perf_counter() - began

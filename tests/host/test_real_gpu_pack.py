"""The test pack that reads a real GPU, tried on the simulated one: both give the same figures."""

from pathlib import Path

import pytest
from support.timed import wait_until

from devtools.bench_device import REAL_PACK, Device
from devtools.graph import Graph, add_sampler
from devtools.models import TEST_CHECKPOINT

pytestmark = pytest.mark.host

SAME = ("allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
        "requested_bytes", "alloc_retries", "ooms", "free_bytes", "live_blocks")


def test_what_is_read_of_a_real_gpu_is_what_the_simulated_one_says_of_itself(sim):
    gpu = sim(2048, packs=[Path(REAL_PACK)])
    graph = Graph()
    checkpoint = graph.add("CheckpointLoaderSimple", ckpt_name=TEST_CHECKPOINT.split("/")[1])
    graph.add("PreviewAny", source=add_sampler(graph, checkpoint[0], checkpoint[1]))
    gpu.client.run(graph.prompt)
    simulated, real = (Device(gpu.client, gpu=kind) for kind in (False, True))
    of_simulated, of_real = _of_one_moment(simulated, real)
    assert of_simulated["allocated_bytes"] > 0
    assert of_real == of_simulated
    real.reset_peaks()
    assert simulated.ledger()["peak_reserved_bytes"] == simulated.ledger()["reserved_bytes"]
    assert real.free_is_pending() is False


def _of_one_moment(simulated, real):
    """What each says while nothing changes: ComfyUI empties the cache soon after a prompt."""
    found = []

    def nothing_changed():
        found[:] = [simulated.collect(), real.collect(), simulated.collect()]
        found[:] = [{name: figures[name] for name in SAME} for figures in found]
        return found[0] == found[2]

    wait_until(nothing_changed)
    return found[0], found[1]


def test_a_bad_size_is_refused(sim):
    gpu = sim(2048, packs=[Path(REAL_PACK)])
    for body in ({}, {"mib": -1}, {"mib": "much"}, {"mib": True}):
        status, answer = gpu.client.post_json("/realgpu/capacity", body)
        assert status == 400 and "a number from 0 up" in answer["error"]

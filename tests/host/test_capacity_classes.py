"""The benchmark of the smallest GPU for each class of model, at a size that a CPU computes."""

import argparse
import sys

import pytest

from tools import bench_run
from tools.bench_device import PROBES, Device

pytestmark = pytest.mark.host

ROOM_MIB = 8192


@pytest.fixture(scope="module")
def capacity_classes():
    before = list(sys.path)
    yield bench_run.load("capacity_classes")
    sys.path[:] = before


def peaks(gpu, module, kind, computed):
    """The device's peaks of one sampling, in bytes; Flux with one block of each sort."""
    args = argparse.Namespace(
        gpu=False, fake_cuda=False, computed=computed, batch=1, depth=0.02, divide=16
    )
    bench = module.ClassBench(Device(gpu.client), args)
    bench.make(kind)
    bench.device.set_capacity(ROOM_MIB)
    before = bench.device.reset_peaks()
    assert before["allocated_bytes"] == before["reserved_bytes"] == 0
    gpu.client.run(bench.sampling(kind, "stock"), timeout=600)
    found = bench.device.ledger()
    return found["peak_allocated_bytes"], found["peak_reserved_bytes"]


@pytest.mark.parametrize("kind", ["SD1.5", "Flux"])
def test_the_real_layers_take_the_same_bytes_with_the_arithmetic_left_out(
    sim, capacity_classes, kind
):
    packs = [PROBES / "headroom_bench"]
    with_arithmetic = peaks(sim(ROOM_MIB, packs=packs), capacity_classes, kind, computed=True)
    packs = [*packs, PROBES / "headroom_shapes_only"]
    shapes = peaks(sim(ROOM_MIB, packs=packs), capacity_classes, kind, computed=False)
    assert shapes == with_arithmetic
    assert shapes[0] > 900 << 20  # the weights alone


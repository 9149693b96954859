"""The code that reads, limits and measures a real GPU, tried on the simulated one."""

import importlib.util
import subprocess
import sys

import pytest
from support.timed import of_one_moment

from tools.device import Device
from tools.graph import Graph, add_checkpoint, add_sampler
from tools.lab import REAL_GPU_PACK, simulated
from tools.models import TEST_CHECKPOINT

pytestmark = pytest.mark.host

SAME = ("allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
        "requested_bytes", "alloc_retries", "ooms", "free_bytes", "live_blocks")


def test_figures_read_as_of_a_real_gpu_are_those_of_the_simulated_one(sim):
    gpu = sim(2048, packs=[REAL_GPU_PACK])
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT)
    graph.add("PreviewAny", source=add_sampler(graph, checkpoint[0], checkpoint[1]))
    gpu.client.run(graph.prompt)
    simulated, real = (Device(gpu.client, gpu=kind) for kind in (False, True))

    def figures(device):
        found = vars(device.collect())
        return {name: found[name] for name in SAME}

    of_simulated, of_real = of_one_moment(lambda: figures(simulated), lambda: figures(real))
    assert of_simulated["allocated_bytes"] > 0
    assert of_real == of_simulated
    for device in (real, simulated):
        now = device.reset_peaks()
        assert now.peak_reserved_bytes == now.reserved_bytes
    assert real.free_is_pending() is False


def test_a_smaller_gpu_is_shown_by_what_is_free_and_by_what_the_allocator_gives(sim):
    gpu = sim(2048, packs=[REAL_GPU_PACK])
    real = Device(gpu.client, gpu=True)
    gpu.unload()
    real.set_capacity(300)
    figures = real.ledger()
    assert figures.capacity_bytes == figures.free_bytes == 300 << 20
    assert real.total_mib() == 2048
    assert real.ledger().free_bytes == 2048 << 20


def test_the_process_that_holds_memory_leaves_as_much_free_as_each_line_says(tmp_path):
    spec = importlib.util.spec_from_file_location("holder", REAL_GPU_PACK / "other_process.py")
    holder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(holder)
    script = tmp_path / "hold.py"
    script.write_text(holder.HOLD, encoding="utf-8")
    wanted = [40 << 20, 10 << 20, 1 << 30]
    done = subprocess.run(
        [sys.executable, *simulated(64), str(script)], capture_output=True, text=True,
        input="".join(f"{nbytes}\n" for nbytes in wanted), check=True,
    )
    assert done.stdout.split() == [str(40 << 20), str(10 << 20), str(64 << 20)]
